/**
 * Both libraries ship CommonJS builds but only ES module types, which TypeScript refuses to `import` from
 * CommonJS. Hence `require` with our own types for what we use.
 */
interface TokenizersLibrary {
  Tokenizer: new (
    tokenizerJson: object,
    tokenizerConfig: object,
  ) => {
    encode(text: string, options: { add_special_tokens: boolean }): { ids: number[] };
    decode(
      ids: number[],
      options: { skip_special_tokens: boolean; clean_up_tokenization_spaces: boolean },
    ): string;
    token_to_id(token: string): number | undefined;
    get_vocab(withAddedTokens: boolean): Map<string, number>;
    get_added_tokens_decoder(): Map<number, unknown>;
  };
}

/** A value of the template language. */
export interface JinjaValue {
  value: unknown;
  builtins?: Map<string, JinjaFunction>;
}

interface JinjaFunction {
  value(given: { value?: unknown }[], environment: unknown): unknown;
}

interface JinjaLibrary {
  Template: new (source: string) => { render(variables: Record<string, unknown>): string };
  Environment: new () => { set(name: string, value: unknown): void };
  Interpreter: new (environment: unknown) => {
    run(program: unknown): JinjaValue;
    evaluate(statement: object, environment: unknown): JinjaValue;
    evaluateMemberExpression(expression: { object: object }, environment: unknown): JinjaValue;
    applyFilter(operand: JinjaValue, filter: unknown, environment: unknown): JinjaValue;
  };
  tokenize(source: string, options: { lstrip_blocks: boolean; trim_blocks: boolean }): unknown;
  parse(tokens: unknown): unknown;
}

// eslint-disable-next-line @typescript-eslint/no-require-imports
export const tokenizersLibrary = require('@huggingface/tokenizers') as TokenizersLibrary;
// eslint-disable-next-line @typescript-eslint/no-require-imports
export const jinjaLibrary = require('@huggingface/jinja') as JinjaLibrary;
