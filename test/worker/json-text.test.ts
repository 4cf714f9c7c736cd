import fc from 'fast-check';
import { expect, test } from 'vitest';
import { escapeInto, MOST_ESCAPED } from '../../lib/worker/json-text.ts';

function escaped(text: string): string {
  const bytes = Buffer.from(text);
  const to = Buffer.alloc(MOST_ESCAPED * bytes.length);
  return to.subarray(0, escapeInto(to, bytes)).toString();
}

const inside = (text: string): string => JSON.stringify(text).slice(1, -1);

test('every character below U+0800 is escaped as JSON.stringify does, wherever it stands among plain ones', () => {
  for (let code = 0; code < 0x800; code++) {
    for (let before = 0; before < 4; before++) {
      const text = `${'x'.repeat(before)}${String.fromCharCode(code)}yyyyyyy`;
      expect(escaped(text)).toBe(inside(text));
    }
  }
});

test('any text is escaped as JSON.stringify does', () => {
  const unit = fc.oneof(
    fc.constantFrom('"', '\\', '\n', '\0', '\u007f', '!', '\u2028', '[', '#'),
    fc.string(),
  );
  const text = fc.array(unit).map((units) => units.join('').toWellFormed());
  fc.assert(fc.property(text, (one) => escaped(one) === inside(one)));
});
