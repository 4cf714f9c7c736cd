/** Tells the ways a start can fail apart, before and after it: every finding names the part that is wrong. */
import { constants } from 'node:fs';
import { access, open, stat } from 'node:fs/promises';
import { delimiter, isAbsolute, join, resolve } from 'node:path';
import type { Issue } from '../errors.ts';

/** One argument or `NAME=value` string, with its terminating NUL: Linux MAX_ARG_STRLEN. */
export const MAX_STRING_BYTES = 131_072;
/** All arguments and the environment together: Linux takes a quarter of the usual 8 MiB stack. */
export const MAX_TOTAL_BYTES = 2_097_152;

const MAX_NAME = 255;

export interface Startable {
  readonly argv: readonly string[];
  /** the whole environment of the child */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** where each part comes from in the document, as JSON Pointers */
  readonly origin: {
    readonly argv: (index: number) => string;
    readonly env: (name: string) => string;
    readonly cwd: string;
  };
}

/**
 * Where the program may be, in the order in which it is looked for: absolute paths; or what no start could be tried
 * with. Nothing is looked at.
 */
export function planStart(
  command: Startable,
): { readonly programs: readonly string[] } | { readonly issues: readonly Issue[] } {
  const issues = [...checkName(command), ...checkStrings(command)];
  return issues.length === 0 ? { programs: candidatesOf(command) } : { issues };
}

/** Every reason why the command cannot start, as far as can be seen from here. */
export async function diagnoseStart(command: Startable): Promise<readonly Issue[]> {
  return [...checkStrings(command), ...(await checkDirectory(command)), ...(await checkProgram(command))];
}

/** The first of these paths at which there is a program that can be started. */
export async function firstExecutable(paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) if ((await checkExecutable(path, '')) === undefined) return path;
  return undefined;
}

function checkStrings({ argv, env, origin }: Startable): Issue[] {
  const strings = [
    ...argv.map((text, i) => ({
      text,
      size: Buffer.byteLength(text) + 1,
      path: origin.argv(i),
      name: `argument ${i}`,
    })),
    ...Object.entries(env).map(([name, text]) => ({
      text,
      size: Buffer.byteLength(name) + Buffer.byteLength(text) + 2,
      path: origin.env(name),
      name: `environment variable ${name}`,
    })),
  ];
  const issues: Issue[] = [];
  for (const { text, size, path, name } of strings) {
    if (text.includes('\0')) {
      issues.push(
        problem(
          'nul_byte',
          path,
          `${name} holds a NUL byte at offset ${text.indexOf('\0')}, which no program can be given; pass such text by stdin`,
        ),
      );
    } else if (size > MAX_STRING_BYTES) {
      issues.push(
        problem(
          'too_long',
          path,
          `${name} is ${size} bytes long, the limit is ${MAX_STRING_BYTES}; pass it by stdin or {system_file} instead`,
        ),
      );
    }
  }
  const total = strings.reduce((sum, { size }) => sum + size + 8, 0);
  if (issues.length === 0 && total > MAX_TOTAL_BYTES) {
    issues.push(
      problem(
        'too_long',
        origin.argv(0).replace(/\/[^/]*$/, ''),
        `arguments and environment are ${total} bytes long together, the limit is ${MAX_TOTAL_BYTES}; pass the largest by stdin instead`,
      ),
    );
  }
  return issues;
}

async function checkDirectory({ cwd, origin }: Startable): Promise<Issue[]> {
  if (cwd.includes('\0')) return [problem('nul_byte', origin.cwd, 'the working directory holds a NUL byte')];
  try {
    if (!(await stat(cwd)).isDirectory())
      return [
        problem('cwd_not_a_directory', origin.cwd, `the working directory '${cwd}' is not a directory`),
      ];
    await access(cwd, constants.X_OK);
    return [];
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT')
      return [problem('cwd_missing', origin.cwd, `the working directory '${cwd}' does not exist`)];
    if (code === 'ENOTDIR')
      return [
        problem(
          'cwd_not_a_directory',
          origin.cwd,
          `a part of the working directory '${cwd}' is not a directory`,
        ),
      ];
    return [problem(code, origin.cwd, `the working directory '${cwd}' cannot be entered: ${code}`)];
  }
}

function checkName({ argv, origin }: Startable): Issue[] {
  const name = argv[0] ?? '';
  if (name === '') return [problem('ENOENT', origin.argv(0), 'the program name is empty')];
  return [];
}

function candidatesOf({ argv: [name = ''], env, cwd }: Startable): string[] {
  if (name.includes('/')) return [isAbsolute(name) ? name : resolve(cwd, name)];
  const dirs = [...new Set(searched(env).split(delimiter))];
  // no file has a longer name, so one place is enough to say so
  return (name.length > MAX_NAME ? dirs.slice(0, 1) : dirs).map((dir) =>
    resolve(cwd, join(dir === '' ? '.' : dir, name)),
  );
}

function searched(env: Startable['env']): string {
  return env.PATH ?? '';
}

async function checkProgram(command: Startable): Promise<Issue[]> {
  const [name = ''] = command.argv;
  const path = command.origin.argv(0);
  if (name === '' || name.includes('\0')) return checkName(command);
  let refused: Issue | undefined;
  for (const candidate of candidatesOf(command)) {
    const problemHere = await checkExecutable(candidate, path);
    if (problemHere === undefined) return [];
    if (problemHere.code !== 'ENOENT') refused ??= problemHere;
  }
  if (refused) return [refused];
  const where = name.includes('/') ? '' : `; PATH searched: ${searched(command.env) || '(empty)'}`;
  return [problem('ENOENT', path, `program '${name}' not found${where}`)];
}

async function checkExecutable(file: string, path: string): Promise<Issue | undefined> {
  try {
    const found = await stat(file);
    if (found.isDirectory()) return problem('EACCES', path, `program ${file} is a directory`);
    const mode = (found.mode & 0o7777).toString(8).padStart(4, '0');
    if ((found.mode & 0o111) === 0)
      return problem('EACCES', path, `program ${file} is not executable (mode ${mode}); chmod +x it`);
    await access(file, constants.X_OK);
    return await checkInterpreter(file, path);
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return problem('ENOENT', path, `program ${file} not found`);
    return problem(code, path, `program ${file} cannot be executed by this user: ${code}`);
  }
}

/** A script's interpreter or a binary's loader that is missing makes the kernel say that the *program* is. */
async function checkInterpreter(file: string, path: string): Promise<Issue | undefined> {
  const handle = await open(file, 'r').catch(() => undefined);
  if (!handle) return undefined;
  try {
    const head = Buffer.alloc(4096);
    const { bytesRead } = await handle.read(head, 0, head.length, 0);
    const interpreter = interpreterOf(head.subarray(0, bytesRead));
    if (interpreter === undefined || (await stat(interpreter).catch(() => undefined))) return undefined;
    return problem(
      'interpreter_missing',
      path,
      `program ${file} needs the interpreter or loader ${interpreter}, which is missing`,
    );
  } finally {
    await handle.close();
  }
}

function interpreterOf(head: Buffer): string | undefined {
  if (head.toString('latin1', 0, 2) === '#!') {
    const line = head.toString('utf8', 2).split('\n', 1)[0] ?? '';
    return line.trim().split(/[ \t]/, 1)[0] || undefined;
  }
  const isElf64Little =
    head.length >= 64 && head.readUInt32BE(0) === 0x7f454c46 && head[4] === 2 && head[5] === 1;
  if (!isElf64Little) return undefined;
  const table = Number(head.readBigUInt64LE(32));
  const size = head.readUInt16LE(54);
  const count = head.readUInt16LE(56);
  for (let i = 0, at = table; i < count && at + 56 <= head.length; i++, at += size) {
    if (head.readUInt32LE(at) !== 3) continue;
    const offset = Number(head.readBigUInt64LE(at + 8));
    const length = Number(head.readBigUInt64LE(at + 32));
    return offset + length <= head.length ? head.toString('utf8', offset, offset + length - 1) : undefined;
  }
  return undefined;
}

export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown';
}

function problem(code: string, path: string, message: string): Issue {
  return { code, path, message, severity: 'error' };
}
