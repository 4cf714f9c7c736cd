/** The store: one bucket, and grants by the prefixes of its keys. Everything that outlives a deployment is here. */
import { Duration } from 'aws-cdk-lib';
import { Grant, type IGrantable } from 'aws-cdk-lib/aws-iam';
import { BlockPublicAccess, Bucket, BucketEncryption, ObjectOwnership } from 'aws-cdk-lib/aws-s3';
import { Construct } from 'constructs';
import type { StageConfig } from './config.ts';
import { removalPolicy } from './retention.ts';

/** What lies below one of these is granted together: `blueprints/*`. */
export type Prefix = 'blueprints' | 'inputs' | 'tasks' | 'runs';

const PASSING: readonly Prefix[] = ['inputs', 'tasks', 'runs'];
const OLD_VERSIONS_DAYS = 30;

export class Storage extends Construct {
  readonly bucket: Bucket;
  /** the setting STORE_URL */
  readonly url: string;

  constructor(scope: Construct, id: string, stage: StageConfig) {
    super(scope, id);
    this.bucket = new Bucket(this, 'Bucket', {
      encryption: BucketEncryption.S3_MANAGED,
      enforceSSL: true,
      minimumTLSVersion: 1.2,
      blockPublicAccess: BlockPublicAccess.BLOCK_ALL,
      objectOwnership: ObjectOwnership.BUCKET_OWNER_ENFORCED,
      versioned: true,
      removalPolicy: removalPolicy(stage),
      lifecycleRules: [
        ...PASSING.map((prefix) => ({
          id: `${prefix} pass`,
          prefix: `${prefix}/`,
          expiration: Duration.days(stage.retention_days),
        })),
        {
          id: 'leftovers',
          abortIncompleteMultipartUploadAfter: Duration.days(1),
          noncurrentVersionExpiration: Duration.days(OLD_VERSIONS_DAYS),
        },
        { id: 'markers', expiredObjectDeleteMarker: true },
      ],
    });
    this.url = `s3://${this.bucket.bucketName}`;
  }

  /** Reading below the prefixes, and telling an absent object from a forbidden one. */
  grantRead(grantee: IGrantable, ...prefixes: Prefix[]): void {
    this.grant(grantee, ['s3:GetObject'], prefixes);
    Grant.addToPrincipal({
      grantee,
      actions: ['s3:ListBucket'],
      resourceArns: [this.bucket.bucketArn],
      // GetObject of an absent key is 404 only for who may list; that check carries no prefix
      conditions: { StringLikeIfExists: { 's3:prefix': prefixes.map((prefix) => `${prefix}/*`) } },
    }).assertSuccess();
  }

  /** Creating and replacing below the prefixes; nothing may be deleted. */
  grantWrite(grantee: IGrantable, ...prefixes: Prefix[]): void {
    this.grant(grantee, ['s3:PutObject', 's3:AbortMultipartUpload'], prefixes);
  }

  /** Creating the cancel markers of runs, and nothing else. */
  grantCancelRuns(grantee: IGrantable): void {
    this.grant(grantee, ['s3:PutObject'], ['runs'], '*/cancel.json');
  }

  private grant(grantee: IGrantable, actions: string[], prefixes: readonly Prefix[], below = '*'): void {
    const resourceArns = prefixes.map((prefix) => this.bucket.arnForObjects(`${prefix}/${below}`));
    Grant.addToPrincipal({ grantee, actions, resourceArns }).assertSuccess();
  }
}
