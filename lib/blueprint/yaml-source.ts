/** YAML 1.2 (core schema) to JSON: numbers keep their digits, and what JSON cannot say is an error. */
import { Composer, type Document, Lexer, Parser } from 'yaml';
import { MAX_DEPTH } from '../json.ts';
import type { ReadText } from './source-text.ts';
import { offsetOfNode, YamlFault, yamlToJson } from './yaml-value.ts';

/** More tokens than this take seconds and hundreds of MB; as JSON the same document takes milliseconds. */
export const MAX_YAML_TOKENS = 500_000;

/** Reads one YAML document; its nesting is bounded before any recursion. */
export function readYamlText(text: string): ReadText {
  try {
    const document = compose(text);
    const value = yamlToJson(document);
    return {
      ok: true,
      value,
      offsets: (pointers) => pointers.map((pointer) => offsetOfNode(document, pointer)),
    };
  } catch (error) {
    if (error instanceof YamlFault)
      return { ok: false, code: error.code, message: error.message, offset: error.offset };
    throw error;
  }
}

function compose(text: string): Document.Parsed {
  const composer = new Composer({ uniqueKeys: false, logLevel: 'silent' });
  // the composer would go on and make an error per token; it calls again with what it catches on its way out
  let first: YamlFault | undefined;
  const onError = (source: ErrorSource, _code: string, message: string): never => {
    first ??= syntaxFault(source, message);
    throw first;
  };
  Object.assign(composer, { onError });
  let document: Document.Parsed | undefined;
  for (const next of composer.compose(boundedTokens(text))) {
    if (document)
      throw new YamlFault('not_yaml', 'several YAML documents in one file; keep one', next.range[0]);
    document = next;
  }
  const [problem] = [...(document?.errors ?? []), ...(document?.warnings ?? [])];
  if (problem) throw syntaxFault(problem.pos, problem.message);
  if (!document?.contents) throw new YamlFault('not_yaml', 'the document is empty', 0);
  return document;
}

type ErrorSource = number | readonly number[] | { readonly offset: number };

function syntaxFault(source: ErrorSource, message: string): YamlFault {
  const offset = typeof source === 'number' ? source : 'offset' in source ? source.offset : source[0];
  const [line = message] = message.split('\n');
  return new YamlFault('not_yaml', `not YAML: ${line.charAt(0).toLowerCase()}${line.slice(1)}`, offset);
}

/** The parser's tokens; stops at too many of them, and at nesting that would overflow the composer's stack. */
function* boundedTokens(text: string) {
  const parser = new Parser();
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    if (++count > MAX_YAML_TOKENS) {
      throw new YamlFault(
        'too_large',
        `more than ${MAX_YAML_TOKENS} YAML tokens; write the document as JSON`,
        parser.offset,
      );
    }
    for (const token of parser.next(lexeme)) {
      if (token.type === 'error') throw syntaxFault(token.offset, token.message);
      yield token;
    }
    if (parser.stack.length > MAX_DEPTH + 20) {
      throw new YamlFault('too_deep', `nested deeper than ${MAX_DEPTH} levels`, parser.offset);
    }
  }
  yield* parser.end();
}
