/** What checks of one template find. */
import type { Problem } from './check-text.ts';
import type { Draft } from './read-blueprint.ts';
import type { SubprocessDef } from './schema.ts';

export type Template = Draft<SubprocessDef>;

/** A problem and the path below the template at which it lies. */
export type Finding = readonly [path: readonly PropertyKey[], problem: Problem];
