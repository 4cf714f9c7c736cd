/** Function environments: AWS takes 4 KB of names and values together, and says so only when it deploys. */
import { Tokenization } from 'aws-cdk-lib';
import { StepspawnError } from '../lib/errors.ts';

const MAX_BYTES = 4096;
/** For a value that only AWS knows yet, such as an ARN. */
const UNKNOWN_BYTES = 160;

/** The environment as given. Throws InvalidTask with all sizes when it is over 4 KB. */
export function checkedEnvironment(
  id: string,
  environment: Readonly<Record<string, string>>,
): Record<string, string> {
  const sizes = Object.entries(environment)
    .map(([name, value]) => ({ name, bytes: Buffer.byteLength(name) + valueBytes(value) }))
    .sort((a, b) => b.bytes - a.bytes);
  const total = sizes.reduce((sum, { bytes }) => sum + bytes, 0);
  if (total <= MAX_BYTES) return { ...environment };
  const shown = sizes.map(({ name, bytes }) => `${name} ${bytes}`).join(', ');
  throw new StepspawnError(
    'InvalidTask',
    `the environment of function ${id} has ${total} bytes, the limit is ${MAX_BYTES}: ${shown}; keep texts in Blueprints or the image, the environment holds only names`,
  );
}

function valueBytes(value: string): number {
  const { tokens } = Tokenization.reverseString(value);
  const placeholders = tokens.reduce((sum, token) => sum + Buffer.byteLength(token.toString()), 0);
  return Buffer.byteLength(value) - placeholders + tokens.length * UNKNOWN_BYTES;
}
