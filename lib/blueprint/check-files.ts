/** Checks of `files` and `artifacts`: paths that stay below HOME or the directory of the child. */
import { templateProblems } from './check-text.ts';
import type { Finding } from './finding.ts';
import { readGlob } from './glob.ts';
import { quote } from './nearest.ts';
import { isValidTemplate } from './placeholders.ts';
import { filePathProblem } from './places.ts';
import type { Draft } from './read-blueprint.ts';
import type { ArtifactDef } from './schema.ts';

export function* checkFiles(files: Draft<Readonly<Record<string, string>>>): Generator<Finding> {
  const taken: Tree = new Map();
  for (const path of Object.keys(files)) {
    const problem = filePathProblem(path) ?? overlap(path, taken);
    if (problem !== undefined) yield [['files', path], { code: 'bad_file_path', message: problem }];
    const content = files[path];
    if (content === undefined || isValidTemplate(content)) continue;
    for (const found of templateProblems(content)) yield [['files', path], found];
  }
}

/** Folders by name, down to files as the path that names them. */
interface Tree extends Map<string, Tree | string> {}

/** Why a path cannot stand beside those that the tree holds; adds it. */
function overlap(path: string, tree: Tree): string | undefined {
  const folders = path.split('/');
  const name = folders.pop() ?? '';
  let at = tree;
  for (const folder of folders) {
    const there: Tree | string = at.get(folder) ?? new Map();
    if (typeof there === 'string')
      return `below ${quote(there)}, which is a file; a name is either a file or a folder`;
    at.set(folder, there);
    at = there;
  }
  const there = at.get(name);
  if (there !== undefined)
    return `a folder of ${quote(firstFile(there))}; a name is either a file or a folder`;
  at.set(name, path);
  return undefined;
}

function firstFile(at: Tree | string): string {
  let found = at;
  while (typeof found !== 'string') found = found.values().next().value ?? '';
  return found;
}

export function* checkArtifacts(artifacts: readonly (Draft<ArtifactDef> | undefined)[]): Generator<Finding> {
  for (let i = 0; i < artifacts.length; i++) {
    const glob = artifacts[i]?.glob;
    if (glob === undefined) continue;
    const answer = readGlob(glob);
    if (answer.ok) continue;
    yield [['artifacts', i, 'glob'], { code: 'bad_glob', message: `${quote(glob)}: ${answer.problem}` }];
  }
}
