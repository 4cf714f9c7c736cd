/** The REST API: routes and who answers them. Signed requests only, unless the stage says otherwise. */
import { Duration } from 'aws-cdk-lib';
import {
  AccessLogFormat,
  AuthorizationType,
  EndpointType,
  LambdaIntegration,
  type LambdaIntegrationOptions,
  LogGroupLogDestination,
  MethodLoggingLevel,
  type Model,
  type RequestValidator,
  ResponseTransferMode,
  RestApi,
} from 'aws-cdk-lib/aws-apigateway';
import type { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { MODELS } from './api-models.ts';
import type { StageConfig } from './config.ts';
import type { Functions } from './functions.ts';
import { addGatewayResponses } from './gateway-responses.ts';
import { logGroup, removalPolicy } from './retention.ts';
import type { Workflow } from './workflow.ts';

const ACCESS_LOG = {
  request_id: '$context.requestId',
  time: '$context.requestTime',
  caller: '$context.identity.userArn',
  source_ip: '$context.identity.sourceIp',
  method: '$context.httpMethod',
  path: '$context.path',
  status: '$context.status',
  response_bytes: '$context.responseLength',
  latency_ms: '$context.responseLatency',
  error_type: '$context.error.responseType',
};

/** An answer that comes piece by piece, for as long as a function can run. */
const STREAMED: LambdaIntegrationOptions = {
  responseTransferMode: ResponseTransferMode.STREAM,
  timeout: Duration.minutes(15),
};

export class Api extends Construct {
  readonly rest: RestApi;
  private readonly validators: { readonly body: RequestValidator; readonly path: RequestValidator };

  constructor(
    scope: Construct,
    id: string,
    parts: { readonly stage: StageConfig; readonly functions: Functions; readonly workflow: Workflow },
  ) {
    super(scope, id);
    const { stage, functions, workflow } = parts;
    const accessLogs = logGroup(this, 'AccessLogs', stage);
    this.rest = new RestApi(this, 'Rest', {
      endpointTypes: [EndpointType.REGIONAL],
      cloudWatchRole: true,
      cloudWatchRoleRemovalPolicy: removalPolicy(stage),
      defaultMethodOptions: {
        authorizationType: stage.api_auth === 'iam' ? AuthorizationType.IAM : AuthorizationType.NONE,
      },
      deployOptions: {
        stageName: stage.stage,
        throttlingRateLimit: stage.api_rate,
        throttlingBurstLimit: stage.api_burst,
        tracingEnabled: true,
        metricsEnabled: true,
        loggingLevel: MethodLoggingLevel.ERROR,
        dataTraceEnabled: false,
        accessLogDestination: new LogGroupLogDestination(accessLogs),
        accessLogFormat: AccessLogFormat.custom(JSON.stringify(ACCESS_LOG)),
      },
    });
    addGatewayResponses(this.rest);
    this.validators = {
      body: this.rest.addRequestValidator('Body', {
        validateRequestBody: true,
        validateRequestParameters: true,
      }),
      path: this.rest.addRequestValidator('Path', { validateRequestParameters: true }),
    };
    const model = (name: keyof typeof MODELS): Model =>
      this.rest.addModel(name, { contentType: 'application/json', schema: MODELS[name] });
    const blueprint = model('Blueprint');
    this.route('POST', '/v1/validate', functions.validate, blueprint);
    this.route('POST', '/v1/blueprints', functions.validate, blueprint);
    const attempt = model('Attempt');
    this.route('POST', '/v1/spawn', functions.front, attempt);
    this.route('POST', '/v1/spawn/stream', functions.stream, attempt, STREAMED);
    this.route('GET', '/v1/tasks/{task_id}/{attempt}', functions.front);
    this.route('POST', '/v1/tasks/{task_id}/{attempt}/cancel', functions.front);
    this.route('POST', '/v1/runs', workflow.runs, model('Run'));
    this.route('GET', '/v1/runs/{run_id}', workflow.runs);
    this.route('POST', '/v1/runs/{run_id}/cancel', workflow.runs);
  }

  private route(
    method: 'GET' | 'POST',
    path: string,
    target: LambdaFunction,
    body?: Model,
    options: LambdaIntegrationOptions = {},
  ): void {
    const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => `method.request.path.${name}`);
    this.rest.root
      .resourceForPath(path)
      .addMethod(method, new LambdaIntegration(target, { allowTestInvoke: false, ...options }), {
        requestParameters: Object.fromEntries(names.map((name) => [name, true])),
        requestValidator: body ? this.validators.body : this.validators.path,
        ...(body && { requestModels: { 'application/json': body } }),
      });
  }
}
