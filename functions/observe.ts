/** Logs and metrics of the functions: one JSON object a line, no payloads, no secrets. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { Logger } from '@aws-lambda-powertools/logger';
import { Metrics, MetricUnit } from '@aws-lambda-powertools/metrics';
import type { Context } from 'aws-lambda';
import type { TaskResult } from '../lib/task.ts';

const logger = new Logger({ serviceName: 'stepspawn' });
const metrics = new Metrics({ namespace: 'stepspawn', serviceName: 'stepspawn' });

/** What every line of one invocation carries; set anew for each. */
export interface Subject {
  readonly task_id?: string;
  readonly attempt?: number;
  readonly run_id?: string;
}

const current = new AsyncLocalStorage<Logger>();

/** Runs one invocation with a log of its own: request id, trace id, and nothing of any other invocation. */
export function observed<T>(context: Context, run: () => Promise<T>): Promise<T> {
  const own = logger.createChild();
  own.addContext(context);
  return current.run(own, run);
}

export function observeSubject(subject: Subject): void {
  current.getStore()?.appendKeys({ ...subject });
}

export function logFault(error: unknown): void {
  (current.getStore() ?? logger).error('fault', error instanceof Error ? error : new Error(String(error)));
}

/** One line and the metrics of a settled attempt. */
export function observeResult(result: TaskResult, childMs: number | undefined): void {
  const { status, reason, duration_ms, replayed, stdout, stderr, stats, exit } = result;
  current.getStore()?.info('attempt settled', {
    status,
    reason,
    duration_ms,
    replayed,
    exit_code: exit.code,
    signal: exit.signal,
  });
  if (replayed) return;
  metrics.addDimensions({ status, reason: reason ?? 'none' });
  metrics.addMetric('Attempts', MetricUnit.Count, 1);
  metrics.addMetric('Duration', MetricUnit.Milliseconds, duration_ms);
  if (childMs !== undefined) metrics.addMetric('ChildDuration', MetricUnit.Milliseconds, Math.round(childMs));
  metrics.addMetric('OutputBytes', MetricUnit.Bytes, stdout.size_bytes + stderr.size_bytes);
  if (stats.usage) metrics.addMetric('Tokens', MetricUnit.Count, stats.usage.total_tokens);
  metrics.publishStoredMetrics();
}
