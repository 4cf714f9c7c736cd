/** Alarms for what needs a person: faults of ours, lost events, throttling, runs out of time. */
import { Duration } from 'aws-cdk-lib';
import { Alarm, ComparisonOperator, type IMetric, TreatMissingData } from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import { Construct } from 'constructs';
import type { Api } from './api.ts';
import type { StageConfig } from './config.ts';
import type { Functions } from './functions.ts';
import type { Workflow } from './workflow.ts';

const PERIOD = { period: Duration.minutes(5) };
/** A fan-out is throttled for a while whenever it is wider than the concurrency; only lasting throttling counts. */
const LASTING_PERIODS: Readonly<Record<string, number>> = { WorkerThrottled: 3 };

export class Alarms extends Construct {
  constructor(
    scope: Construct,
    id: string,
    parts: {
      readonly stage: StageConfig;
      readonly functions: Functions;
      readonly workflow: Workflow;
      readonly api: Api;
    },
  ) {
    super(scope, id);
    const { stage, functions, workflow, api } = parts;
    const { worker, front, validate, plan, failures } = functions;
    // a function behind the API answers errors of callers, so what counts as an error of it is a fault;
    // the worker throws them, for the state machine
    const watched: Record<string, IMetric> = {
      LostEvents: failures.metricApproximateNumberOfMessagesVisible(PERIOD),
      ServerErrors: api.rest.metricServerError({ ...PERIOD, statistic: 'Sum' }),
      FrontFaults: front.metricErrors(PERIOD),
      ValidateFaults: validate.metricErrors(PERIOD),
      PlanFaults: plan.metricErrors(PERIOD),
      RunsFaults: workflow.runs.metricErrors(PERIOD),
      CancelMarkerFaults: workflow.cancelMarker.metricErrors(PERIOD),
      WorkerThrottled: worker.metricThrottles(PERIOD),
      ExecutionsTimedOut: workflow.machine.metricTimedOut(PERIOD),
    };
    const topics = this.topics(stage);
    for (const [name, metric] of Object.entries(watched)) {
      const alarm = new Alarm(this, name, {
        metric,
        threshold: 1,
        evaluationPeriods: LASTING_PERIODS[name] ?? 1,
        comparisonOperator: ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
        treatMissingData: TreatMissingData.NOT_BREACHING,
      });
      alarm.addAlarmAction(...topics.map((topic) => new SnsAction(topic)));
    }
  }

  private topics({ alarm_email, alarm_topic_arn }: StageConfig): ITopic[] {
    const topics: ITopic[] = [];
    if (alarm_topic_arn !== undefined) topics.push(Topic.fromTopicArn(this, 'Given', alarm_topic_arn));
    if (alarm_email !== undefined) {
      const topic = new Topic(this, 'Topic', { enforceSSL: true });
      topic.addSubscription(new EmailSubscription(alarm_email));
      topics.push(topic);
    }
    return topics;
  }
}
