/** `acoer generate`: completions for prompts given as JSON Lines, or an answer to a single prompt. */
import type { Command } from 'commander';
import type { GeneratedSequence, SamplingOptions } from '../engine/types';
import { AcoerError, errorCode } from '../base/errors';
import { streamSeed } from '../base/rng';
import { type Completion, EngineSampler, type SamplePrompt, SlotLimit } from '../sampling';
import { loadTokenizer, LostCharacters } from '../tokenizer';
import type { Tokenizer } from '../tokenizer';
import { addEngineOptions, addModelOptions, integer, number } from './command';
import type { CommandModule } from './command';
import { interruptible } from './interrupt';
import { InOrder, Spool } from './jsonl';
import { printable } from '../base/printable';
import { chatPrompt, promptReader } from './prompts';
import type { PromptLine } from './prompts';
import { checkTokenizer, withModel } from './session';
import type { ModelFlags, ModelSession } from './session';
import { printJsonLine, printNote } from './output';

/** Sequences passed to the engine per call: enough to keep every slot busy, few enough to hold in memory. */
const WINDOW_SEQUENCES = 1024;

interface GenerateFlags extends ModelFlags, SamplingOptions {
  samples: number;
  maxNewTokens: number;
  seed: number;
  stop: string[];
  prompt?: string;
  json?: boolean;
}

interface Output {
  index: number;
  sample: number;
  text: string;
  ids: number[];
  logprobs: number[];
  finish: GeneratedSequence['finish'];
  thinkingTokens: number;
  thinkingClosed: boolean;
}

/** Some or all of a prompt's samples. */
interface Piece {
  index: number;
  prompt: PromptLine;
  firstSample: number;
  numSamples: number;
}

/** Pieces in order, grouped into windows of at most WINDOW_SEQUENCES sequences. */
async function* windows(prompts: AsyncIterable<PromptLine>, samples: number): AsyncGenerator<Piece[]> {
  let pieces: Piece[] = [];
  let room = WINDOW_SEQUENCES;
  let index = 0;
  for await (const prompt of prompts) {
    for (let firstSample = 0; firstSample < samples;) {
      const numSamples = Math.min(room, samples - firstSample);
      pieces.push({ index, prompt, firstSample, numSamples });
      firstSample += numSamples;
      room -= numSamples;
      if (room > 0) continue;
      yield pieces;
      pieces = [];
      room = WINDOW_SEQUENCES;
    }
    index++;
  }
  if (pieces.length > 0) yield pieces;
}

function stopIds(tokenizer: Tokenizer, stops: readonly string[]): Int32Array {
  const extra = stops.map((stop) => {
    const ids = tokenizer.encode(stop);
    if (ids.length === 1) return ids[0];
    throw new AcoerError(
      'BAD_ARGUMENT',
      `--stop ${JSON.stringify(stop)} is ${ids.length} tokens in this model; it must be a single token.`,
    );
  });
  return Int32Array.from(new Set([...tokenizer.eosIds, ...extra]));
}

class Generator {
  private readonly stops: Int32Array;
  private readonly sampler: EngineSampler;
  private readonly results: InOrder<Output>;

  constructor(
    private readonly session: ModelSession,
    tokenizer: Tokenizer,
    private readonly flags: GenerateFlags,
    write: (output: Output) => void,
  ) {
    this.results = new InOrder(write);
    this.stops = stopIds(tokenizer, flags.stop);
    const { model, policy } = session;
    const slots = new SlotLimit();
    this.sampler = new EngineSampler({ model, policy, tokenizer, slots: () => slots });
  }

  private wanted({ index, prompt, firstSample, numSamples }: Piece): SamplePrompt {
    const { seed, maxNewTokens } = this.flags;
    return {
      ids: Int32Array.from(prompt.ids),
      thinkOpened: prompt.thinkOpened,
      numSamples,
      firstSample,
      seed: streamSeed(seed, 'generate', index),
      maxNewTokens: Math.min(maxNewTokens, this.session.model.info.maxPositions - prompt.ids.length),
    };
  }

  private output(index: number, completion: Completion): Output {
    const { sample, text, ids, logprobs, finish, thinkingTokens, thinkingClosed } = completion;
    return {
      index,
      sample,
      text,
      ids: Array.from(ids),
      logprobs: Array.from(logprobs),
      finish,
      thinkingTokens,
      thinkingClosed,
    };
  }

  async run(prompts: AsyncIterable<PromptLine>, signal: AbortSignal): Promise<void> {
    for await (const pieces of windows(prompts, this.flags.samples)) {
      await this.window(pieces, signal);
      if (signal.aborted) break;
    }
    this.results.flush();
  }

  private async window(pieces: Piece[], signal: AbortSignal): Promise<void> {
    const onCompletion = (completion: Completion): void => {
      // A sequence that never started is not a completion, and how many were still waiting is of no interest.
      if (completion.finish === 'cancelled' && completion.ids.length === 0) return;
      const output = this.output(pieces[completion.prompt]!.index, completion);
      this.results.add(output.index * this.flags.samples + output.sample, output);
    };
    const { temperature, topK, topP, minP, repetitionPenalty } = this.flags;
    const sampling = { temperature, topK, topP, minP, repetitionPenalty };
    try {
      const wanted = pieces.map((piece) => this.wanted(piece));
      await this.sampler.sample(wanted, { sampling, stopIds: this.stops, signal }, onCompletion);
    } catch (error) {
      // onCompletion has already had the completions in flight; the caller reports the interruption.
      if (!signal.aborted || errorCode(error) !== 'CANCELLED') throw error;
    }
  }
}

/** Prints just the text of a single completion; several get a heading each. */
function writeText({ samples, maxNewTokens }: GenerateFlags): (output: Output) => void {
  return ({ sample, text, ids, finish, thinkingTokens }) => {
    const cut =
      finish === 'length' ? `cut off after ${ids.length} tokens (--max-new-tokens ${maxNewTokens})` : '';
    const facts = [
      `${ids.length} tokens`,
      `${thinkingTokens} of thinking`,
      ...(cut === '' ? [] : ['cut off']),
    ];
    const heading = samples === 1 ? '' : `--- ${sample + 1} of ${samples}: ${facts.join(', ')}\n`;
    // A file or another program gets the text as it is.
    const shown = process.stdout.isTTY ? printable(text.trim()) : text.trim();
    process.stdout.write(`${heading}${shown}\n`);
    if (samples === 1 && cut !== '') printNote(cut);
  };
}

async function* only<T>(value: T): AsyncGenerator<T> {
  yield value;
}

function refuseMixed(file: string | undefined, { prompt, json }: GenerateFlags): void {
  if (prompt !== undefined && file !== undefined)
    throw new AcoerError(
      'BAD_CONFIG',
      '--prompt and a file of prompts cannot be combined; give one of them.',
    );
  if (prompt === undefined && json === true)
    throw new AcoerError(
      'BAD_CONFIG',
      '--json is only for --prompt; the output for JSON Lines is always JSON Lines.',
    );
}

const noteAll = (lost: LostCharacters): void =>
  lost.sentences().forEach((sentence) => printNote(`acoer: ${sentence}`));

async function generate(file: string | undefined, flags: GenerateFlags): Promise<void> {
  refuseMixed(file, flags);
  await interruptible((signal) =>
    withModel(flags, signal, async (session) => {
      const tokenizer = await loadTokenizer(session.directory);
      checkTokenizer(session, tokenizer);
      const { info } = session.model;
      const lost = new LostCharacters(tokenizer);
      if (flags.prompt !== undefined) {
        const write = flags.json === true ? printJsonLine : writeText(flags);
        const generator = new Generator(session, tokenizer, flags, write);
        const prompt = chatPrompt(flags.prompt, tokenizer, info, lost);
        noteAll(lost);
        return generator.run(only(prompt), signal);
      }
      const generator = new Generator(session, tokenizer, flags, printJsonLine);
      await using prompts = await Spool.create<PromptLine>();
      await prompts.fill(file, promptReader({ tokenizer, limits: info, lost }));
      noteAll(lost);
      await generator.run(prompts.read(), signal);
    }),
  );
}

export const define: CommandModule['define'] = (command: Command) => {
  addModelOptions(command)
    .argument('[file]', 'JSON Lines file; standard input if omitted or -')
    .option(
      '--prompt <text>',
      'one prompt, put through the chat template; its completions are printed as text',
    )
    .option('--json', 'with --prompt: print JSON Lines records instead of text')
    .option('-n, --samples <n>', 'completions per prompt', integer(1, 1 << 20), 1)
    .option('--temperature <t>', '0: greedy', number(0), 1)
    .option('--max-new-tokens <n>', 'maximum tokens per completion', integer(1), 512)
    .option('--seed <n>', 'seed; the same seed gives the same completions', integer(0), 42)
    .option('--top-k <n>', 'sample only from the k most likely tokens; 0: all', integer(0), 0)
    .option(
      '--top-p <p>',
      'sample only from the most likely tokens with total probability p; 1: all',
      number(0, 1),
      1,
    )
    .option(
      '--min-p <p>',
      'drop tokens less likely than p times the most likely one; 0: off',
      number(0, 1),
      0,
    )
    .option(
      '--repetition-penalty <x>',
      'above 1, tokens that already occur become less likely',
      number(1e-3),
      1,
    )
    .option(
      '--stop <token>',
      "a token that ends a completion, in addition to the model's own (repeatable)",
      (token: string, stops: string[]) => [...stops, token],
      [] as string[],
    )
    .addHelpText(
      'after',
      `
  acoer generate --model tiny --temperature 0 --prompt "6-3-4 mod 10?"

Each line of a file is one of
  {"prompt": "raw text, no template"}
  {"messages": [{"role": "user", "content": "..."}]}
  {"ids": [1, 2, 3]}
and each completion is written as {"index","sample","text","ids","logprobs",
"finish","thinkingTokens","thinkingClosed"}.`,
    )
    .action(generate);
  addEngineOptions(command);
};
