// Asks a Lambda Runtime API for events as the Runtime Interface Client does, and hands them to the handler of a module.
import { request } from 'node:http';
import { pathToFileURL } from 'node:url';

const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(':');
const base = '/2018-06-01/runtime';

function call(method, path, body) {
  return new Promise((resolve, reject) => {
    const sent = request({ host, port, method, path: base + path }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('end', () =>
        resolve({ headers: response.headers, text: Buffer.concat(chunks).toString() }),
      );
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const { handler } = await import(pathToFileURL(process.argv[2]).href);
for (;;) {
  const { headers, text } = await call('GET', '/invocation/next');
  const awsRequestId = headers['lambda-runtime-aws-request-id'];
  const deadline = Number(headers['lambda-runtime-deadline-ms']);
  const context = {
    awsRequestId,
    functionName: 'f',
    functionVersion: '1',
    getRemainingTimeInMillis: () => deadline - Date.now(),
  };
  try {
    await call(
      'POST',
      `/invocation/${awsRequestId}/response`,
      JSON.stringify(await handler(JSON.parse(text), context)),
    );
  } catch (error) {
    await call(
      'POST',
      `/invocation/${awsRequestId}/error`,
      JSON.stringify({ errorType: error.name, errorMessage: error.message }),
    );
  }
}
