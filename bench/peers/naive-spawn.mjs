// A handler that spawns as one would at first: pipes, everything in memory, nothing stored.
import { spawn } from 'node:child_process';

export const handler = ({ in: text }) =>
  new Promise((resolve, reject) => {
    const child = spawn('cat', { stdio: ['pipe', 'pipe', 'pipe'] });
    const chunks = [];
    child.stdout.on('data', (chunk) => chunks.push(chunk));
    child.stderr.resume();
    child.on('error', reject);
    child.on('close', (code) => resolve({ ok: code === 0, value: Buffer.concat(chunks).toString() }));
    child.stdin.end(text);
  });
