/** Ours and its peers as servers that run the programs of a folder, one process for each request. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { unpackedPeers } from '../peers/debian.ts';
import { bundled, shipped } from './built.ts';
import { post, type Reply } from './http-client.ts';
import { freePort, type Running, startServer } from './processes.ts';

export interface Server extends Running {
  readonly name: string;
  /** Where and how a program of the folder is asked for, with what it gets on stdin. */
  readonly request: (program: string, input: string) => { readonly url: string; readonly body: string };
  /** Whether the answer says that the program succeeded. */
  readonly succeeded: (reply: Reply) => boolean;
  /** What the program printed. */
  readonly printed: (reply: Reply) => string;
}

/** Null where it cannot be had; `dir` is a folder of its own. */
type Start = (programs: string, port: number, dir: string) => Promise<Omit<Server, 'name'> | null>;

/** What every server that has a time limit is given. */
const LIMIT_SECS = 1;

/** `in memory`: ours with its store and scratch on a file system in memory. */
const SERVERS = { stepspawn: ours(tmpdir()), 'in memory': ours('/dev/shm'), naive, lighttpd, webhook };
export type ServerName = keyof typeof SERVERS;

/** Starts those that run here; `programs` holds executables. Stop them in the end. */
export async function startServers(
  programs: string,
  names: readonly ServerName[],
): Promise<readonly Server[]> {
  const servers: Server[] = [];
  for (const name of names) {
    const dir = mkdtempSync(join(tmpdir(), 'stepspawn-bench-'));
    const server = await SERVERS[name](programs, await freePort(), dir);
    const stop = async (): Promise<void> => {
      await server?.stop();
      rmSync(dir, { recursive: true, force: true });
    };
    if (server === null) await stop();
    else servers.push({ ...server, name, stop });
  }
  return servers;
}

const plain = {
  succeeded: ({ status }: Reply) => status === 200,
  printed: ({ text }: Reply) => text,
};

/** The local server with its store below `place`, which decides what a durable write costs. */
function ours(place: string): Start {
  return async (programs, port, dir) => {
    const home = mkdtempSync(join(place, 'stepspawn-bench-'));
    const scratch = join(home, 'scratch');
    mkdirSync(scratch);
    const serve = ['serve', '--port', `${port}`, '--store', `file://${home}/store`];
    const running = await startServer([process.execPath, shipped('cli/stepspawn.mjs'), ...serve], port, {
      SCRATCH_DIR: scratch,
      HOME: dir,
    });
    const url = `http://127.0.0.1:${port}/v1`;
    const registered = await post({
      url: `${url}/blueprints`,
      body: JSON.stringify({ blueprint: documentOf(programs) }),
    });
    if (registered?.status !== 201) throw new Error(`the Blueprint is not registered: ${registered?.text}`);
    const blueprint = { digest: JSON.parse(registered.text).digest };
    return {
      request: (agent, input) => ({
        url: `${url}/spawn`,
        body: JSON.stringify({ agent, blueprint, in: input }),
      }),
      succeeded: ({ status, text }) => status === 200 && JSON.parse(text).ok === true,
      printed: ({ text }) => JSON.parse(text).value.raw,
      stop: async () => {
        await running.stop();
        rmSync(home, { recursive: true, force: true });
      },
    };
  };
}

function documentOf(programs: string) {
  const names = readdirSync(programs);
  return {
    id: 'bench',
    flow: { kind: 'seq', children: [] },
    agents: names.map((name) => ({
      name,
      kind: 'subprocess',
      runner: { backend: 'subprocess', template: name },
    })),
    subprocesses: names.map((name) => ({
      name,
      argv: [join(programs, name)],
      stdin: '{prompt}',
      limits: { timeout_secs: LIMIT_SECS, grace_secs: 0.5 },
    })),
  };
}

async function naive(programs: string, port: number): ReturnType<Start> {
  const script = bundled('peers/naive-server.ts');
  const running = await startServer([process.execPath, script, `${port}`, programs], port);
  const request = (program: string, body: string) => ({ url: `http://127.0.0.1:${port}/${program}`, body });
  return { ...running, ...plain, request };
}

/** CGI: what `cat` is given begins with the header that it has to print. */
const CGI_HEADER = 'content-type: text/plain\r\n\r\n';

async function lighttpd(programs: string, port: number, dir: string): ReturnType<Start> {
  const peers = unpackedPeers();
  if (peers === null) return null;
  const config = join(dir, 'lighttpd.conf');
  writeFileSync(
    config,
    `server.modules = ("mod_cgi")
server.document-root = "${programs}"
server.bind = "127.0.0.1"
server.port = ${port}
server.upload-dirs = ("${dir}")
server.follow-symlink = "enable"
server.max-keep-alive-requests = 1000000
cgi.assign = ("" => "")
cgi.limits = ("read-timeout" => ${LIMIT_SECS}, "write-timeout" => ${LIMIT_SECS}, "tcp-fin-propagate" => "SIGTERM")
`,
  );
  const usr = join(peers, 'usr');
  const argv = [join(usr, 'sbin', 'lighttpd'), '-D', '-f', config, '-m', join(usr, 'lib', 'lighttpd')];
  const libraries = readdirSync(join(usr, 'lib')).filter((name) => name.endsWith('-linux-gnu'));
  const LD_LIBRARY_PATH = libraries.map((name) => join(usr, 'lib', name)).join(':');
  const running = await startServer(argv, port, { LD_LIBRARY_PATH });
  const request = (program: string, input: string) => ({
    url: `http://127.0.0.1:${port}/${program}`,
    body: program === 'cat' ? `${CGI_HEADER}${input}` : input,
  });
  return { ...running, ...plain, request };
}

/**
 * Go, as of-watchdog. It gives no stdin and has no time limit: `cat` is `echo` of its argument, others find their input in
 * the file $BODY and run under `timeout`.
 */
async function webhook(programs: string, port: number, dir: string): ReturnType<Start> {
  const peers = unpackedPeers();
  if (peers === null) return null;
  const common = { 'include-command-output-in-response': true };
  const hooks = readdirSync(programs).map((id) =>
    id === 'cat'
      ? { id, ...common, 'execute-command': '/bin/echo', 'pass-arguments-to-command': ECHOED }
      : { id, ...common, ...limited(join(programs, id)) },
  );
  const file = join(dir, 'hooks.json');
  writeFileSync(file, JSON.stringify(hooks));
  const argv = [join(peers, 'usr', 'bin', 'webhook'), '-hooks', file, '-ip', '127.0.0.1', '-port', `${port}`];
  const running = await startServer(argv, port);
  const request = (program: string, body: string) => ({
    url: `http://127.0.0.1:${port}/hooks/${program}`,
    body,
  });
  return { ...running, ...plain, request };
}

const ECHOED = [{ source: 'string', name: '-n' }, { source: 'raw-request-body' }];

function limited(program: string) {
  return {
    'execute-command': '/usr/bin/timeout',
    'pass-arguments-to-command': [`${LIMIT_SECS}`, program].map((name) => ({ source: 'string', name })),
    'pass-file-to-command': [{ source: 'raw-request-body', envname: 'BODY' }],
  };
}
