/** The package ships no declarations. */
declare module 'asl-validator' {
  interface Validation {
    readonly isValid: boolean;
    readonly errors: readonly { readonly 'Error code': string; readonly Message: string }[];
  }
  export default function validate(
    definition: unknown,
    options: { readonly checkPaths: boolean; readonly checkArn: boolean },
  ): Validation;
}
