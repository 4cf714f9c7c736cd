import { withPositions } from '../lib/blueprint/source.ts';
import { type Issue, StepspawnError } from '../lib/errors.ts';
import { validate } from '../lib/validate.ts';
import { readBlueprint } from './blueprint-file.ts';
import { EXIT, issueLine, print, say } from './output.ts';

/** `stepspawn validate`: all issues, as lines for people or as `{"ok", "issues"}`. */
export async function validateCommand(file: string, options: { readonly json?: boolean }): Promise<void> {
  const { ok, issues } = await check(file);
  if (options.json) print({ ok, issues });
  else {
    for (const issue of issues) say(issueLine(file, issue));
    say(ok ? `${file} is valid` : `${file} is not valid`);
  }
  process.exitCode = ok ? EXIT.ok : EXIT.notPassed;
}

async function check(file: string): Promise<{ readonly ok: boolean; readonly issues: readonly Issue[] }> {
  try {
    const source = await readBlueprint(file);
    const { ok, issues } = await validate(source.value);
    return { ok, issues: withPositions(issues, source) };
  } catch (error) {
    if (error instanceof StepspawnError && error.code === 'InvalidBlueprint')
      return { ok: false, issues: error.issues };
    throw error;
  }
}
