/** What an entry (terminal, server, Lambda) brings along for attempts. */
import type { Poll } from './poll.ts';
import type { Secrets } from './secrets.ts';
import type { ObjectStore } from './store/object-store.ts';
import type { HostProcess } from './store/result-store.ts';
import type { ChildUser, ScratchRoot } from './worker/scratch.ts';
import type { Spawn } from './worker/spawn.ts';
import type { StreamEvent } from './worker/stream-event.ts';

export interface AttemptPorts {
  readonly store: ObjectStore;
  /** milliseconds until a call on a small object counts as failed; a default when absent */
  readonly store_patience_ms?: number;
  readonly scratch: ScratchRoot;
  readonly spawn: Spawn;
  /** the child's environment before anything is added: PATH, locale, TZ */
  readonly base_env: Readonly<Record<string, string>>;
  readonly secrets: Secrets;
  /** where a child without cwd and work dir runs; null: the attempt's own empty directory */
  readonly default_cwd: string | null;
  /** user that children run as; ours when absent, and only root may name another */
  readonly child_user?: ChildUser | undefined;
  /** this process, when claims of dead holders on this host may be taken over at once */
  readonly host: HostProcess | null;
  /** when the cancel marker is looked for */
  readonly cancel_poll: Poll;
  /** milliseconds since the epoch at which the platform wants the result stored */
  readonly platform_deadline?: number;
  /** aborted: the child is ended and the claim given back, or, with the reason `cancelled`, that result stored */
  readonly signal?: AbortSignal | undefined;
  /** told how many milliseconds the child ran */
  readonly onChildEnd?: ((ms: number) => void) | undefined;
  /** other modes: text of stdout as it arrives, secrets hidden; for people to watch, the result holds all of it */
  readonly onOutput?: ((text: string) => void) | undefined;
  /** stream modes: each event as it arrives */
  readonly onEvent?: ((event: StreamEvent) => void) | undefined;
}
