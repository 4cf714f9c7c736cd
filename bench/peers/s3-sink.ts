// An S3 server that swallows what is put and has nothing: for measuring clients. Prints its port.
import { createServer } from 'node:http';

let parts = 0;
const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    const { method, url = '' } = request;
    const answer = (status: number, body = '') => {
      response.writeHead(status, { ETag: `"${parts++}"`, 'Content-Type': 'application/xml' });
      response.end(body);
    };
    if (method === 'PUT') answer(200);
    else if (method === 'POST' && url.includes('uploads'))
      answer(200, '<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>');
    else if (method === 'POST')
      answer(200, '<CompleteMultipartUploadResult><ETag>"x"</ETag></CompleteMultipartUploadResult>');
    else if (method === 'GET' && url.includes('list-type'))
      answer(200, '<ListBucketResult></ListBucketResult>');
    else if (method === 'GET') answer(404, '<Error><Code>NoSuchKey</Code></Error>');
    else answer(204);
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = server.address();
  process.stdout.write(`${typeof address === 'object' && address ? address.port : ''}\n`);
});
