import * as z from 'zod';
import { Blueprint } from '../lib/blueprint/schema.ts';
import { print } from './output.ts';

/** `stepspawn schema`: JSON Schema of the document, for editors. */
export function schemaCommand(): void {
  print(z.toJSONSchema(Blueprint, { io: 'output', unrepresentable: 'any' }));
}
