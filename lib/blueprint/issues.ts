/** Findings as data: how they are made, and how many of them are kept. */
import type { Issue } from '../errors.ts';

/** More errors (and more warnings) than this are not listed. */
export const MAX_ISSUES = 1000;

export function error(code: string, path: string, message: string): Issue {
  return { code, path, message, severity: 'error' };
}

export function warning(code: string, path: string, message: string): Issue {
  return { code, path, message, severity: 'warning' };
}

/** The first errors and warnings; where there are more, a last issue says so. */
export function capped(issues: Iterable<Issue>): Issue[] {
  const kept: Issue[] = [];
  const counts = { error: 0, warning: 0 };
  for (const issue of issues) {
    if (++counts[issue.severity] <= MAX_ISSUES) {
      kept.push(issue);
    } else if (issue.severity === 'error') {
      kept.push(error('too_many_issues', '', `more than ${MAX_ISSUES} errors; the rest is not listed`));
      return kept;
    }
  }
  const hidden = counts.warning - MAX_ISSUES;
  if (hidden > 0) kept.push(warning('too_many_issues', '', `${hidden} more warnings are not listed`));
  return kept;
}
