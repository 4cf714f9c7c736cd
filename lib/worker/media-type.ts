/** The media type of a file by the ending of its name. */

/** What command-line agents leave behind; source text that has no registered type is plain text. */
const ENDINGS: Readonly<Record<string, string>> = {
  'application/gzip': 'gz tgz',
  'application/json': 'json map sarif ipynb',
  'application/octet-stream': 'bin',
  'application/pdf': 'pdf',
  'application/sql': 'sql',
  'application/toml': 'toml',
  'application/vnd.openxmlformats-officedocument.presentationml.presentation': 'pptx',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'application/wasm': 'wasm',
  'application/x-ndjson': 'jsonl ndjson',
  'application/x-tar': 'tar',
  'application/xml': 'xml',
  'application/yaml': 'yaml yml',
  'application/zip': 'zip',
  'audio/mpeg': 'mp3',
  'audio/wav': 'wav',
  'image/gif': 'gif',
  'image/jpeg': 'jpg jpeg',
  'image/png': 'png',
  'image/svg+xml': 'svg',
  'image/webp': 'webp',
  'text/css': 'css',
  'text/csv': 'csv',
  'text/html': 'html htm',
  'text/javascript': 'js mjs cjs',
  'text/markdown': 'md markdown',
  'text/plain':
    'txt log text diff patch ts mts cts tsx jsx py rb go rs java kt c h cc cpp hpp cs php sh bash swift ini cfg conf env lock tex rst',
  'text/tab-separated-values': 'tsv',
  'video/mp4': 'mp4',
  'video/webm': 'webm',
};

const TYPES: ReadonlyMap<string, string> = new Map(
  Object.entries(ENDINGS).flatMap(([type, endings]) => endings.split(' ').map((ending) => [ending, type])),
);

/** `application/octet-stream` where the ending says nothing. */
export function mediaType(name: string): string {
  const ending = /[^/]\.([^./]+)$/.exec(name)?.[1]?.toLowerCase();
  return TYPES.get(ending ?? '') ?? 'application/octet-stream';
}
