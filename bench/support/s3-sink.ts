/**
 * An S3 that keeps nothing but the sizes of its objects: answers as S3 does to writes, in parts too, and knows no object
 * when asked for one. `node s3-sink.ts PORT`; `GET /` tells the sizes by key.
 */
import { createServer, type IncomingMessage } from 'node:http';

const objects = new Map<string, number>();
const uploads = new Map<string, Map<string, number>>();
const XML = { 'content-type': 'application/xml' };

createServer(async (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://sink');
  const bytes = await swallow(request);
  const id = searchParams.get('uploadId');
  if (pathname === '/') response.end(JSON.stringify(Object.fromEntries(objects)));
  else if (request.method === 'PUT') {
    if (id === null) objects.set(pathname, bytes);
    else uploads.get(id)?.set(searchParams.get('partNumber') ?? '', bytes);
    const sum = request.headers['x-amz-checksum-crc32'];
    response.writeHead(200, { etag: '"0"', ...(sum && { 'x-amz-checksum-crc32': sum }) }).end();
  } else if (request.method === 'POST' && id === null) {
    const made = `upload-${uploads.size}`;
    uploads.set(made, new Map());
    response.writeHead(200, XML).end(wrap('InitiateMultipartUploadResult', `<UploadId>${made}</UploadId>`));
  } else if (request.method === 'POST') {
    const parts = [...(uploads.get(id ?? '')?.values() ?? [])];
    objects.set(
      pathname,
      parts.reduce((sum, part) => sum + part, 0),
    );
    response.writeHead(200, XML).end(wrap('CompleteMultipartUploadResult', '<ETag>"0"</ETag>'));
  } else response.writeHead(404, XML).end(wrap('Error', '<Code>NoSuchKey</Code><Message>none</Message>'));
}).listen(Number(process.argv[2]), '127.0.0.1');

function wrap(element: string, content: string): string {
  return `<?xml version="1.0" encoding="UTF-8"?><${element}>${content}</${element}>`;
}

/** How many bytes of content the body held; one that is sent in signed chunks says so itself. */
async function swallow(request: IncomingMessage): Promise<number> {
  let bytes = 0;
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length;
  });
  await new Promise((resolve) => request.once('end', resolve));
  return Number(request.headers['x-amz-decoded-content-length'] ?? bytes);
}
