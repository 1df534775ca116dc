/** Chat templates come with a model and are untrusted: their work is limited, and they reach nothing else. */
import { badInput, errorMessage } from '../base/errors';
import type { ChatMessage } from '../base/types';
import { jinjaLibrary, type JinjaValue } from './libraries';

export interface ChatOptions {
  /** Passed to the template as `enable_thinking`. */
  enableThinking: boolean;
  addGenerationPrompt: boolean;
}

export type RenderChat = (messages: readonly ChatMessage[], options: ChatOptions) => string;

/**
 * Units of work: one for each expression and statement evaluated, plus one per item or per 64 characters of
 * its value. Qwen3's template takes about 500 per message; the limit takes half a second or less.
 */
const MAX_WORK = 100_000;

const { Environment, Interpreter } = jinjaLibrary;

class TooMuchWork extends Error {
  constructor() {
    super(`it takes more than ${MAX_WORK} steps`);
  }
}

function sizeOf(value: unknown): number {
  if (typeof value === 'string') return value.length / 64;
  if (Array.isArray(value)) return value.length;
  return value instanceof Map ? value.size : 0;
}

class Meter {
  private work = 0;

  /** @throws TooMuchWork */
  count(units: number): void {
    this.work += units;
    if (this.work > MAX_WORK) throw new TooMuchWork();
  }
}

const textOf = (argument: { value?: unknown } | undefined): string =>
  typeof argument?.value === 'string' ? argument.value : '';

function occurrences(text: string, part: string): number {
  if (part === '') return text.length + 1;
  let count = 0;
  for (let at = text.indexOf(part); at >= 0; at = text.indexOf(part, at + part.length)) count++;
  return count;
}

/**
 * Every value passes through `evaluate`, so all work is counted. `replace` is counted beforehand: its result may
 * be as long as the product of two texts.
 */
class CountingInterpreter extends Interpreter {
  private readonly metered = new WeakSet<object>();
  /** Expressions whose members are read: asking a text for its methods makes all of them. */
  private readonly owners = new WeakSet<object>();

  constructor(
    environment: unknown,
    private readonly meter: Meter,
  ) {
    super(environment);
  }

  override evaluate(statement: object, environment: unknown): JinjaValue {
    this.meter.count(1);
    const result = super.evaluate(statement, environment);
    this.meter.count(sizeOf(result.value));
    if (this.owners.has(statement)) this.meterReplace(result);
    return result;
  }

  override evaluateMemberExpression(expression: { object: object }, environment: unknown): JinjaValue {
    this.owners.add(expression.object);
    return super.evaluateMemberExpression(expression, environment);
  }

  override applyFilter(operand: JinjaValue, filter: unknown, environment: unknown): JinjaValue {
    this.meterReplace(operand);
    return super.applyFilter(operand, filter, environment);
  }

  private meterReplace(text: JinjaValue): void {
    const replace = typeof text.value === 'string' ? text.builtins?.get('replace') : undefined;
    if (replace === undefined || this.metered.has(text)) return;
    this.metered.add(text);
    const original = replace.value.bind(replace);
    replace.value = (given, environment) => {
      const [old, by] = [textOf(given[0]), textOf(given[1])];
      this.meter.count(occurrences(textOf(text), old) * (1 + by.length / 64));
      return original(given, environment);
    };
  }
}

/** Python's range; one that is too long fails before the list is built. */
function range(first: number, end?: number, step = 1): number[] {
  const [from, to] = end === undefined ? [0, first] : [first, end];
  const count = Math.max(0, Math.ceil((to - from) / step));
  if (step === 0) throw new Error('range() step must not be zero');
  if (!(count <= MAX_WORK)) throw new TooMuchWork();
  return Array.from({ length: count }, (_, i) => from + i * step);
}

const TIME = new jinjaLibrary.Template('{{ strftime_now(format) }}');

/** The library makes two date formatters per call, which takes as long as this many steps. */
const DATE_WORK = 50;

function strftimeNow(format: unknown, meter: Meter): string {
  meter.count(DATE_WORK + String(format).length);
  return TIME.render({ format });
}

/** Globals that templates may use besides their variables. */
const GLOBALS: Readonly<Record<string, unknown>> = {
  true: true,
  false: false,
  none: null,
  True: true,
  False: false,
  None: null,
  range,
  raise_exception: (message: string) => {
    throw new Error(message);
  },
};

function render(program: unknown, variables: Readonly<Record<string, unknown>>): string {
  const environment = new Environment();
  const meter = new Meter();
  const own = { ...GLOBALS, strftime_now: (format: unknown) => strftimeNow(format, meter), ...variables };
  for (const [name, value] of Object.entries(own)) environment.set(name, value);
  return String(new CountingInterpreter(environment, meter).run(program).value);
}

/**
 * @param special variables such as bos_token
 * @throws BAD_INPUT for a template that cannot be parsed; the returned function throws it when rendering
 * fails
 */
export function makeRenderer(
  directory: string,
  source: string,
  special: Readonly<Record<string, string | null>>,
): RenderChat {
  const failed = (what: string, cause: unknown) =>
    badInput(`The chat template of ${directory} ${what}: ${errorMessage(cause)}`, cause);
  let program: unknown;
  try {
    const tokens = jinjaLibrary.tokenize(source, { lstrip_blocks: true, trim_blocks: true });
    program = jinjaLibrary.parse(tokens);
  } catch (error) {
    throw failed('cannot be parsed', error);
  }
  return (messages, { enableThinking, addGenerationPrompt }) => {
    const variables = {
      ...special,
      messages: messages.map((message) => ({ ...message })),
      add_generation_prompt: addGenerationPrompt,
      enable_thinking: enableThinking,
    };
    try {
      return render(program, variables);
    } catch (error) {
      throw failed('failed', error);
    }
  };
}
