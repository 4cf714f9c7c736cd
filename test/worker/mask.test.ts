import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMask } from '../../lib/worker/mask.ts';

const { text, bytes } = createMask(['secret-1', 'secret-1-longer', 'päßwörd-ü', 'short']);

test('hides values of 8 characters or more, byte for byte', () => {
  expect(text('a secret-1 b secret-1-longer c')).toBe('a ******** b *************** c');
  expect(text('päßwörd-ü')).toBe('*************');
  expect(text('short stays, and so does everything else')).toBe('short stays, and so does everything else');
  expect(text('secret-1secret-1')).toBe('*'.repeat(16));
});

test('hides them in a stream, wherever it is cut', async () => {
  const whole = Buffer.from('x secret-1 y secret-1-longer z päßwörd-ü end');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(whole.length), { maxLength: 6 }), async (cuts) => {
      const at = [0, ...cuts.sort((a, b) => a - b), whole.length];
      async function* chunks(): AsyncIterable<Uint8Array> {
        for (let i = 1; i < at.length; i++) yield whole.subarray(at[i - 1], at[i]);
      }
      const out: Uint8Array[] = [];
      for await (const chunk of bytes(chunks())) out.push(chunk);
      expect(Buffer.concat(out).toString()).toBe(text(whole.toString()));
    }),
  );
});

test('hides the beginning of a value that a message cuts off', () => {
  const { message } = createMask(['supersecretvalue']);
  expect(message('it says xxsupersec… and supersecretvalue')).toBe(
    'it says xx********… and ****************',
  );
  expect(message('it says xxsu… super…man')).toBe('it says xxsu… *****…man');
  expect(message('no secret… here')).toBe('no secret… here');
});
