/** Secrets of a stage: which ones the worker may read. */
import type { IGrantable } from 'aws-cdk-lib/aws-iam';
import { Secret } from 'aws-cdk-lib/aws-secretsmanager';
import { StringParameter } from 'aws-cdk-lib/aws-ssm';
import { Construct } from 'constructs';

/** Grants reading each source: `secretsmanager:ID` (name or complete ARN) or `ssm:NAME`. */
export function grantSecrets(
  grantee: IGrantable & Construct,
  secrets: Readonly<Record<string, string>>,
): void {
  const sources = new Construct(grantee, 'Secrets');
  for (const source of new Set(Object.values(secrets))) {
    const colon = source.indexOf(':');
    const place = source.slice(colon + 1);
    if (source.startsWith('ssm:')) {
      StringParameter.fromSecureStringParameterAttributes(sources, source, {
        parameterName: place,
      }).grantRead(grantee);
    } else if (place.startsWith('arn:')) {
      Secret.fromSecretCompleteArn(sources, source, place).grantRead(grantee);
    } else {
      Secret.fromSecretNameV2(sources, source, place).grantRead(grantee);
    }
  }
}
