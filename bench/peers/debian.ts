/** Peers that are Debian packages: unpacked into the cache folder, nothing is installed on the machine. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

const PACKAGES = ['webhook', 'lighttpd', 'libpcre2-8-0', 'libnettle8', 'libxxhash0'];

/** The folder that holds the packages' `usr`, or null with a word on stderr where they cannot be had. */
export function unpackedPeers(): string | null {
  const cache = process.env.STEPSPAWN_CACHE ?? join(homedir(), '.cache', 'stepspawn');
  const folder = join(cache, 'peers');
  const complete = join(folder, 'complete');
  if (existsSync(complete)) return folder;
  try {
    mkdirSync(folder, { recursive: true });
    const here = { cwd: folder, stdio: 'pipe' } as const;
    execFileSync('apt-get', ['-qq', '-o', 'APT::Sandbox::User=', 'download', ...PACKAGES], here);
    for (const name of readdirSync(folder).filter((file) => file.endsWith('.deb')))
      execFileSync('dpkg', ['-x', name, '.'], here);
    mkdirSync(complete);
    return folder;
  } catch (error) {
    process.stderr.write(`no peers from Debian packages here, measuring without: ${error}\n`);
    return null;
  }
}
