import { expect, test } from 'vitest';
import { mediaType } from '../../lib/worker/media-type.ts';

test.each([
  ['a.md', 'text/markdown'],
  ['x.y/A.JSON', 'application/json'],
  ['log.jsonl', 'application/x-ndjson'],
  ['a.test.ts', 'text/plain'],
  ['fix.patch', 'text/plain'],
  ['a.tar.gz', 'application/gzip'],
  ['~/.tool/shot.png', 'image/png'],
  ['Makefile', 'application/octet-stream'],
  ['.md', 'application/octet-stream'],
  ['a.md/x', 'application/octet-stream'],
  ['a.', 'application/octet-stream'],
  ['a.constructor', 'application/octet-stream'],
])('%s is %s', (name, type) => {
  expect(mediaType(name)).toBe(type);
});
