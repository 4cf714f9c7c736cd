/** Where everything lies in the store; the same keys in every adapter. */

export function attemptKey(taskId: string, attempt: number, name: string): string {
  return `tasks/${taskId}/${attempt}/${name}`;
}

export function blueprintKey(digest: string): string {
  return `blueprints/${digest.replace(':', '-')}.json`;
}

export function runKey(runId: string, name: string): string {
  return `runs/${runId}/${name}`;
}
