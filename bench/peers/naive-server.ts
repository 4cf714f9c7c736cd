/**
 * What one writes first: a Node server that spawns `FOLDER/NAME` for a POST to `/NAME`, with a time limit, and answers
 * what it prints; 500 when it fails. `node naive-server.ts PORT FOLDER`.
 */
import { spawn } from 'node:child_process';
import { createServer } from 'node:http';
import { basename, join } from 'node:path';

const [port, folder = ''] = process.argv.slice(2);
const LIMIT_MS = 1000;

createServer((request, response) => {
  const child = spawn(join(folder, basename(request.url ?? '')), { timeout: LIMIT_MS });
  const chunks: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => chunks.push(chunk));
  child.stderr.resume();
  child.stdin.on('error', () => undefined);
  request.pipe(child.stdin);
  child.once('error', () => response.writeHead(500).end());
  child.once('close', (code) => {
    const body = Buffer.concat(chunks);
    response.writeHead(code === 0 ? 200 : 500, { 'content-length': body.length }).end(body);
  });
}).listen(Number(port), '127.0.0.1');
