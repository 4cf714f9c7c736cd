/** Progress of a run for people: one line per settled step; at a terminal also a line with what runs now. */
import type { WriteStream } from 'node:tty';
import type { StepProgress } from '../lib/run.ts';
import { short } from '../lib/worker/text.ts';

const REFRESH_MS = 200;
const SHOWN = 4;

export interface ProgressDisplay {
  readonly tell: (progress: StepProgress) => void;
  readonly stop: () => void;
}

/** Shows each step's name, state and seconds taken on `stream`. */
export function showProgress(stream: WriteStream): ProgressDisplay {
  const running = new Map<string, { readonly ref: string; readonly since: number }>();
  const live = stream.isTTY === true;
  const clear = live ? '\r\x1b[2K' : '';
  const redraw = (): void => {
    if (!live || running.size === 0) return;
    const shown = [...running.values()].slice(0, SHOWN).map(({ ref, since }) => `${ref} ${seconds(since)}`);
    const more = running.size > SHOWN ? ` and ${running.size - SHOWN} more` : '';
    stream.write(
      `${clear}running: ${shown.join(', ')}${more}`.slice(0, (stream.columns ?? 80) + clear.length - 1),
    );
  };
  const timer = live ? setInterval(redraw, REFRESH_MS) : undefined;
  return {
    tell: ({ task_id, ref: agent, state, replayed, message, warnings, next }) => {
      const ref = short(agent, 80);
      const known = running.get(task_id);
      if (state === 'started') {
        running.set(task_id, { ref, since: performance.now() });
        if (!live) stream.write(`${ref} started\n`);
        return;
      }
      if (next !== null) {
        const why = message === null ? '' : `: ${short(message, 500)}`;
        stream.write(`${clear}${ref} tries again, attempt ${next.attempt} at ${next.not_before}${why}\n`);
        return;
      }
      running.delete(task_id);
      const how = replayed ? 'from the store' : `in ${seconds(known?.since ?? performance.now())}`;
      stream.write(`${clear}${ref} ${state} ${how}${message === null ? '' : `: ${short(message, 500)}`}\n`);
      for (const warning of warnings) stream.write(`${ref} warning: ${short(warning, 500)}\n`);
      redraw();
    },
    stop: () => {
      clearInterval(timer);
      stream.write(clear);
    },
  };
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1000).toFixed(1)} s`;
}
