/** A model to talk to: its weights before and after training, asked by any number of callers at once. */
import { randomBytes } from 'node:crypto';
import { AcoerError, badInput, badUsage } from '../base/errors';
import { needList } from '../base/border';
import { streamSeed } from '../base/rng';
import type { ChatMessage } from '../base/types';
import { createEngine } from '../engine/engine';
import { needOptions, type OptionNames } from '../engine/options';
import type {
  DeviceName,
  Dtype,
  Engine,
  KvCacheDtype,
  Model,
  Policy,
  Quantization,
  SamplingOptions,
} from '../engine/types';
import { DEFAULT_SLOTS } from '../engine/types';
import { baseModelOf, checkBaseTokenizer, loadChecked } from '../life/base-model';
import { type ModelFetchOptions, resolveModel } from '../models';
import { loadTrained } from '../run';
import { loadTokenizer, promptTokens, renderForAnswer, thinkLeftOpen, type Tokenizer } from '../tokenizer';
import { type Answer, type Answers, ask, type Piece } from './answers';
import { Batcher } from './batcher';
import { BASE, openingOf } from './names';

/** Positions of a prompt and its answer, where the model has more. */
export const DEFAULT_MODEL_LENGTH = 16_384;
const IDLE_MS = 5_000;
/** Of the free memory, for the caches of what has been answered. */
const KEPT_SHARE = 0.1;

export interface OpenModelOptions extends ModelFetchOptions {
  device?: DeviceName;
  threads?: number;
  /** To compute in. Default: the model's own. */
  dtype?: Dtype;
  /** Of the base's linear weights. Default: what the runs were trained over. */
  quantization?: Quantization | null;
  /** Adapters in PEFT's layout by name, beside what runs have trained. */
  adapters?: Readonly<Record<string, string>>;
  /** Most tokens of a prompt and its answer. Default: the model's positions, at most `DEFAULT_MODEL_LENGTH`. */
  maxModelLen?: number;
  /** Most answers that are decoded together. Default `DEFAULT_SLOTS`. */
  maxSlots?: number;
  /** What keys and values are kept in. Default auto: the model's type. */
  kvCacheDtype?: KvCacheDtype;
  /** Most tokens that a step computes beside an answer's last one, as in `generate`; answers stay the same. Default 0. */
  numSpeculativeTokens?: number;
  /** Bytes for the caches of what has been answered, which the next turn of a conversation continues. Default: a tenth of the free memory. */
  keepBytes?: number;
  /** The engine is free for others after so long without a question. Default 5,000. */
  idleMs?: number;
}

export interface AskingOptions extends Partial<SamplingOptions> {
  /** Name of what is asked, of `names`. Default: `model.newest`. */
  weights?: string;
  /** Default: what the model has room for. */
  maxNewTokens?: number;
  /** The same seed gives the same answer, that of `acoer generate` to its first prompt. Default: another one each time. */
  seed?: number;
  /** Texts that end the answer, besides the model's own end. */
  stop?: string | readonly string[];
  signal?: AbortSignal;
}

export interface ChatOptions extends AskingOptions {
  /** Passed to the chat template as `enable_thinking`. Default true. */
  enableThinking?: boolean;
}

/** An answer to read as it comes, or whole. */
export interface AnswerStream extends AsyncIterable<Omit<Piece, 'sample'>> {
  result(): Promise<Omit<Answer, 'sample'>>;
}

const OPEN_OPTIONS: OptionNames<OpenModelOptions> = {
  ...{ device: true, threads: true, dtype: true, quantization: true, adapters: true },
  ...{ maxModelLen: true, maxSlots: true, kvCacheDtype: true, numSpeculativeTokens: true },
  ...{ keepBytes: true, idleMs: true, signal: true, onProgress: true, onNotice: true },
};
const ASKING_OPTIONS: OptionNames<AskingOptions> = {
  ...{ weights: true, maxNewTokens: true, seed: true, stop: true, signal: true },
  ...{ temperature: true, topK: true, topP: true, minP: true, repetitionPenalty: true },
};
const CHAT_OPTIONS: OptionNames<ChatOptions> = { ...ASKING_OPTIONS, enableThinking: true };

/** A prompt in tokens. */
export interface TokenPrompt {
  ids: Int32Array;
  thinkOpened: boolean;
}

/** What can be asked, by name. */
interface Named {
  name: string;
  /** null: the model itself. */
  folder: string | null;
  policy: Promise<Policy | null> | null;
}

export class ChatModel implements AsyncDisposable {
  private readonly named = new Map<string, Named>();
  private readonly loaded = new Set<Policy | null>([null]);
  /** Removed, and perhaps still answering. */
  private readonly retired = new Set<Policy>();
  private readonly batcher: Batcher;
  private disposed = false;

  private constructor(
    private readonly engine: Engine,
    private readonly model: Model,
    readonly tokenizer: Tokenizer,
    /** As `resolveModel` names it. */
    readonly modelName: string,
    { maxModelLen, maxSlots = DEFAULT_SLOTS, keepBytes, idleMs = IDLE_MS, ...decoding }: OpenModelOptions,
  ) {
    this.maxModelLen = maxModelLen ?? Math.min(model.info.maxPositions, DEFAULT_MODEL_LENGTH);
    this.maxSlots = maxSlots;
    const kept = keepBytes ?? Math.floor(KEPT_SHARE * engine.deviceInfo.freeBytes);
    const { kvCacheDtype, numSpeculativeTokens } = decoding;
    const limits = { positions: this.maxModelLen, maxSlots, keepBytes: kept, idleMs };
    const options = { ...limits, kvCacheDtype, numSpeculativeTokens };
    this.batcher = new Batcher(model, () => [...this.loaded], options);
    this.named.set(BASE, { name: BASE, folder: null, policy: Promise.resolve(null) });
  }

  readonly maxModelLen: number;
  readonly maxSlots: number;

  /**
   * @param of a model (`tiny`, a folder, `org/name`), a run, or several runs on one model
   * @throws BAD_INPUT, also for a model that is not the one that a run was trained on; what loading throws
   */
  static async open(of: string | readonly string[], options: OpenModelOptions = {}): Promise<ChatModel> {
    if (typeof of !== 'string') needList('what openModel opens', of);
    needOptions(options, 'openModel', OPEN_OPTIONS);
    const { device, threads, dtype, adapters = {}, ...rest } = options;
    const { signal } = options;
    const {
      model: name,
      weights,
      quantization,
    } = openingOf(typeof of === 'string' ? [of] : of, options.quantization);
    const bases = [...weights.map(({ folder }) => folder), ...Object.values(adapters)].flatMap(
      (folder) => baseModelOf(folder) ?? [],
    );
    const { directory, name: modelName } = await resolveModel(name, options);
    const tokenizer = await loadTokenizer(directory);
    for (const base of bases) checkBaseTokenizer(base, directory, tokenizer);
    const engine = await createEngine({ device, threads });
    try {
      const model = await loadChecked(engine, directory, bases, { dtype, quantization, signal });
      const { maxPositions } = model.info;
      if (rest.maxModelLen !== undefined && rest.maxModelLen > maxPositions)
        throw badUsage(`maxModelLen is ${rest.maxModelLen}, but the model has ${maxPositions} positions.`);
      const opened = new ChatModel(engine, model, tokenizer, modelName, rest);
      for (const one of weights) opened.enter(one.name, one.folder);
      for (const [adapter, folder] of Object.entries(adapters)) await opened.addAdapter(adapter, folder);
      return opened;
    } catch (error) {
      await engine.dispose();
      throw error;
    }
  }

  /** Everything that can be asked: the model itself, `final` and the checkpoints of runs, and adapters. */
  get names(): string[] {
    return [...this.named.keys()];
  }

  /** What was trained longest: `final`, or a run's last checkpoint; of a model without a run the model itself. */
  get newest(): string {
    return this.names.find((name) => /(^|\/)final$/.test(name)) ?? this.names.at(-1)!;
  }

  /** A conversation's next turn. */
  chat(messages: readonly ChatMessage[], options: ChatOptions = {}): AnswerStream {
    needList("chat's messages", messages);
    needOptions(options, 'chat', CHAT_OPTIONS);
    const { enableThinking, ...rest } = options;
    return this.single(this.chatPrompt(messages, enableThinking), true, rest);
  }

  /** A text that goes on, without a chat template; thinking is not set apart. */
  complete(prompt: string | Int32Array, options: AskingOptions = {}): AnswerStream {
    needOptions(options, 'complete', ASKING_OPTIONS);
    return this.single(this.textPrompt(prompt), false, options);
  }

  /** A text as it is, or token ids. */
  textPrompt(prompt: string | Int32Array): TokenPrompt {
    const ids = typeof prompt === 'string' ? this.tokenizer.encode(prompt) : prompt;
    return { ids, thinkOpened: thinkLeftOpen(ids, this.tokenizer) };
  }

  /** @throws BAD_INPUT when the template refuses the messages */
  chatPrompt(messages: readonly ChatMessage[], enableThinking = true): TokenPrompt {
    return promptTokens(this.tokenizer, renderForAnswer(this.tokenizer, messages, enableThinking));
  }

  /** Several answers to one prompt, as a server gives them. @throws BAD_INPUT for a prompt that is empty or too long */
  ask(
    { ids, thinkOpened }: TokenPrompt,
    {
      weights = this.newest,
      split,
      samples = 1,
      streams,
      skipSpecial,
      ignoreEos = false,
      stopIds = [],
      ...options
    }: AskingOptions & {
      split: boolean;
      samples?: number;
      streams?: boolean;
      skipSpecial?: boolean;
      /** The model's own end ends nothing. */
      ignoreEos?: boolean;
      stopIds?: readonly number[];
    },
  ): Answers {
    const { maxNewTokens = this.maxModelLen - ids.length, seed, stop = [], signal, ...sampling } = options;
    this.checkLength(ids, maxNewTokens);
    this.checkIds('The prompt', ids);
    this.checkIds('stopIds', stopIds);
    const question = {
      promptIds: ids,
      thinkOpened,
      numSamples: samples,
      seed: seed === undefined ? randomBytes(8).readBigUInt64LE() : streamSeed(seed, 'generate', 0),
      maxNewTokens,
      stopIds: Int32Array.from(new Set([...(ignoreEos ? [] : this.tokenizer.eosIds), ...stopIds])),
      sampling,
      ...{
        split,
        skipSpecial,
        stops: (typeof stop === 'string' ? [stop] : stop).filter((text) => text !== ''),
      },
    };
    return ask(this.batcher, this.tokenizer, question, () => this.policyOf(weights), { signal, streams });
  }

  /** @throws BAD_INPUT for a name that is taken, or an adapter that does not fit */
  async addAdapter(name: string, folder: string): Promise<void> {
    if (this.named.has(name)) throw badInput(`${name} is there already.`);
    this.enter(name, folder);
    try {
      await this.policyOf(name);
    } catch (error) {
      this.named.delete(name);
      throw error;
    }
  }

  /** What it still answers goes on. @throws BAD_INPUT for a name that is none */
  async removeAdapter(name: string): Promise<void> {
    const entry = this.named.get(name);
    if (entry === undefined || entry.folder === null) throw badInput(`There is no adapter ${name}.`);
    this.named.delete(name);
    const policy = await entry.policy;
    if (policy === null) return;
    this.loaded.delete(policy);
    this.retired.add(policy);
  }

  async dispose(): Promise<void> {
    if (this.disposed) return;
    this.disposed = true;
    await this.batcher.dispose();
    await this.engine.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  private enter(name: string, folder: string): void {
    this.named.set(name, { name, folder, policy: null });
  }

  private policyOf(name: string): Promise<Policy | null> {
    if (this.disposed) throw new AcoerError('DISPOSED', 'the model was disposed');
    const entry = this.named.get(name);
    if (entry === undefined)
      throw badInput(`There is no ${JSON.stringify(name)} here; there are ${this.names.join(', ')}.`);
    entry.policy ??= this.load(entry.folder!).catch((error: unknown) => {
      entry.policy = null;
      throw error;
    });
    return entry.policy;
  }

  private load(folder: string): Promise<Policy> {
    return this.batcher.exclusively(async () => {
      for (const policy of this.retired) await policy.dispose();
      this.retired.clear();
      const policy = await loadTrained(this.model, folder);
      this.loaded.add(policy);
      return policy;
    });
  }

  private checkLength(ids: Int32Array, maxNewTokens: number): void {
    if (ids.length === 0) throw badInput('The prompt is empty.');
    const room = this.maxModelLen - ids.length;
    if (room < 1)
      throw badInput(
        `The prompt has ${ids.length} tokens, but there is room for ${this.maxModelLen} with the answer.`,
      );
    if (maxNewTokens > room) {
      throw badInput(
        `The prompt has ${ids.length} tokens and the answer may have ${maxNewTokens}, but there is room for ${this.maxModelLen} together.`,
      );
    }
  }

  private checkIds(what: string, ids: ArrayLike<number>): void {
    const { vocabSize } = this.model.info;
    const wrong = Array.prototype.find.call(ids, (id: number) => !(id >= 0 && id < vocabSize)) as unknown;
    if (wrong === undefined) return;
    throw badInput(
      `${what} has the token id ${String(wrong)}; the vocabulary has those from 0 to ${vocabSize - 1}.`,
    );
  }

  private single(prompt: TokenPrompt, split: boolean, options: AskingOptions): AnswerStream {
    const answers = this.ask(prompt, { ...options, split });
    return {
      result: async () => {
        const { sample: _, ...answer } = (await answers.result())[0]!;
        return answer;
      },
      async *[Symbol.asyncIterator]() {
        for await (const { sample: _, ...piece } of answers) yield piece;
      },
    };
  }
}

/** Opens a model, or what a run has made of one, to be asked. See `ChatModel.open`. */
export const openModel = (
  of: string | readonly string[],
  options: OpenModelOptions = {},
): Promise<ChatModel> => ChatModel.open(of, options);
