/** A state machine of one's own with two steps: `npx cdk synth --app 'node examples/own-workflow/app.ts'`. */
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Function as LambdaFunction } from 'aws-cdk-lib/aws-lambda';
import { DefinitionBody, JsonPath, StateMachine, TaskInput } from 'aws-cdk-lib/aws-stepfunctions';
import { SpawnStep } from '../../infra/spawn-step.ts';

const stack = new Stack(new App(), 'own-workflow');
const worker = LambdaFunction.fromFunctionName(stack, 'Worker', 'output-WorkerName-of-your-stage');
const blueprint = JsonPath.stringAt('$.blueprint');
const input = TaskInput.fromJsonPathAt('$.draft.value');
const draft = new SpawnStep(stack, 'Draft', { worker, blueprint, agent: 'writer', resultPath: '$.draft' });
const review = new SpawnStep(stack, 'Review', { worker, blueprint, agent: 'reviewer', input });
const definitionBody = DefinitionBody.fromChainable(draft.next(review));
new StateMachine(stack, 'Machine', { definitionBody, timeout: Duration.hours(2) });
