/** Installs agent CLIs from npm into the cache folder, each version once: those that CLIS names, else those of CI. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { arch } from 'node:process';

interface Package {
  readonly package: string;
  readonly version: string;
  /** where the program is in a package that links none */
  readonly program?: string;
}

/**
 * What is tested, by the name of the recipe. The packages that people name for claude and opencode put the program of
 * their platform's package in place in an install script; here it is taken from that package.
 */
export const PACKAGES: Readonly<Record<string, Package>> = {
  claude: { package: `@anthropic-ai/claude-code-linux-${arch}`, version: '2.1.332', program: 'claude' },
  codex: { package: '@openai/codex', version: '0.171.0' },
  gemini: { package: '@google/gemini-cli', version: '0.61.0' },
  opencode: { package: `opencode-linux-${arch}`, version: '1.18.33', program: 'bin/opencode' },
  qwen: { package: '@qwen-code/qwen-code', version: '0.24.4' },
  copilot: { package: '@github/copilot', version: '1.0.102' },
  pi: { package: '@mariozechner/pi-coding-agent', version: '0.73.1' },
  cline: { package: 'cline', version: '3.0.65' },
  continue: { package: '@continuedev/cli', version: '1.5.47' },
};

/** The CLIs that are driven: `CLIS="qwen pi" npm run test:clis`. */
export const DRIVEN = (process.env.CLIS || 'claude codex gemini opencode').split(/\s+/);

const CACHE = join(process.env.STEPSPAWN_CACHE || join(homedir(), '.cache', 'stepspawn'), 'clis');

/** Folder with the program of CLI `name`, installed or not. */
export function binFolder(name: string): string {
  return join(folderOf(name), 'node_modules', '.bin');
}

/** Installs CLI `name` unless it is there; a folder has its name only when the installation is complete. */
export function install(name: string): void {
  const folder = folderOf(name);
  if (existsSync(folder)) return;
  const known = PACKAGES[name]!;
  mkdirSync(CACHE, { recursive: true });
  const made = mkdtempSync(join(CACHE, `.${name}-`));
  try {
    const quiet = ['--ignore-scripts', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error'];
    execFileSync('npm', ['install', '--prefix', made, ...quiet, `${known.package}@${known.version}`], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    if (known.program !== undefined) {
      const bin = join(made, 'node_modules', '.bin');
      mkdirSync(bin, { recursive: true });
      symlinkSync(join('..', known.package, known.program), join(bin, name));
    }
    // a program in a sandbox may have no rights of its user
    chmodSync(made, 0o755);
    renameSync(made, folder);
  } catch (error) {
    rmSync(made, { recursive: true, force: true });
    // somebody else was quicker
    if (!existsSync(folder)) throw error;
  }
}

function folderOf(name: string): string {
  const known = PACKAGES[name];
  if (known === undefined)
    throw new Error(`no CLI is called '${name}'; use one of ${Object.keys(PACKAGES).join(' ')}`);
  return join(CACHE, `${name}-${known.version}`);
}

if (import.meta.main) {
  for (const name of DRIVEN) {
    const begun = performance.now();
    install(name);
    process.stderr.write(`${folderOf(name)} (${((performance.now() - begun) / 1000).toFixed(1)} s)\n`);
  }
}
