/** A Lambda runtime: `node runtime.ts BUNDLE` asks the Runtime API for events and answers them, one at a time. */
import { pathToFileURL } from 'node:url';

type Handler = (event: unknown, context: unknown) => Promise<unknown>;

const [bundle = ''] = process.argv.slice(2);
const api = `http://${process.env.AWS_LAMBDA_RUNTIME_API}/2018-06-01/runtime/invocation`;
const { handler } = (await import(pathToFileURL(bundle).href)) as { readonly handler: Handler };

for (;;) {
  const { headers, body } = await nextEvent();
  const id = headers.get('lambda-runtime-aws-request-id') ?? '';
  const deadline = Number(headers.get('lambda-runtime-deadline-ms'));
  const context = {
    awsRequestId: id,
    functionName: 'f',
    functionVersion: '$LATEST',
    invokedFunctionArn: headers.get('lambda-runtime-invoked-function-arn'),
    memoryLimitInMB: '512',
    getRemainingTimeInMillis: () => deadline - Date.now(),
  };
  const [kind, answer] = await handler(JSON.parse(body), context).then(
    (payload) => ['response', payload] as const,
    (error: Error) => ['error', { errorType: error.name, errorMessage: error.message }] as const,
  );
  await fetch(`${api}/${id}/${kind}`, { method: 'POST', body: JSON.stringify(answer ?? null) });
}

async function nextEvent(): Promise<{ readonly headers: Headers; readonly body: string }> {
  const response = await fetch(`${api}/next`);
  return { headers: response.headers, body: await response.text() };
}
