/** Reads a Blueprint file and the directive of a payload. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { readSource, type Source, withPositions } from '../lib/blueprint/source.ts';
import { StepspawnError } from '../lib/errors.ts';
import { type JsonObject, type JsonValue, parseJson } from '../lib/json.ts';
import { checkedBlueprint } from '../lib/validate.ts';
import { issueLine, say, UsageError } from './output.ts';

export interface PayloadOptions {
  readonly agent: string;
  readonly prompt?: string;
  readonly in?: string;
  readonly inFile?: string;
  readonly taskId?: string;
  readonly attempt: number;
  readonly workDir?: string;
}

/** The document of a file. Throws UsageError when it cannot be read and InvalidBlueprint when it cannot be parsed. */
export async function readBlueprint(file: string): Promise<Source> {
  return readSource(await readInput(file), file);
}

/** The document, checked; issues carry line and column of the file. Throws InvalidBlueprint. */
export async function readChecked(file: string): Promise<JsonValue> {
  const source = await readBlueprint(file);
  try {
    const { warnings } = await checkedBlueprint(source.value);
    for (const issue of withPositions(warnings, source)) say(issueLine(file, issue));
    return source.value;
  } catch (error) {
    if (!(error instanceof StepspawnError)) throw error;
    throw new StepspawnError(error.code, error.message, {
      issues: withPositions(error.issues, source),
      cause: error,
    });
  }
}

/** The directive as the options give it; an empty text when none does. */
export async function readDirective(options: PayloadOptions): Promise<JsonValue> {
  if (options.in !== undefined) return parseOption('--in', options.in);
  if (options.inFile === undefined) return options.prompt ?? '';
  const bytes = await readInput(options.inFile);
  const text = decode(options.inFile, bytes);
  return options.inFile.endsWith('.json') ? parseOption(`--in-file ${options.inFile}`, text) : text;
}

function decode(file: string, bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new UsageError(`--in-file ${file} is not UTF-8 text`);
  }
}

export function parseOption(name: string, text: string): JsonValue {
  try {
    return parseJson(text);
  } catch (error) {
    throw new UsageError(`${name}: expected JSON: ${error instanceof Error ? error.message : error}`);
  }
}

export function launchContext(workDir: string | undefined): JsonObject {
  return workDir === undefined ? {} : { work_dir: resolve(workDir) };
}

const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** The bytes of a file. Throws UsageError when it cannot be read. */
export async function readInput(file: string): Promise<Buffer> {
  try {
    const bytes = await readFile(file);
    if (bytes.length > MAX_FILE_BYTES)
      throw new UsageError(`${file} is ${bytes.length} bytes long, the limit is ${MAX_FILE_BYTES}`);
    return bytes;
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(
      `cannot read ${file}: ${error instanceof Error && 'code' in error ? error.code : error}`,
    );
  }
}
