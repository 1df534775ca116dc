/** `acoer generate`: completions for prompts given as JSON Lines, or an answer to a single prompt. */
import type { Command } from 'commander';
import type { KvCacheDtype, SamplingOptions } from '../engine/types';
import { AcoerError, badUsage, errorCode } from '../base/errors';
import { streamSeed } from '../base/rng';
import {
  type Completion,
  EngineSampler,
  type Piece,
  type SamplePrompt,
  SlotLimit,
  windows,
} from '../sampling';
import { loadTokenizer, LostCharacters, type Tokenizer } from '../tokenizer';
import {
  addEngineOptions,
  addModelOptions,
  integer,
  kvCacheDtypeOption,
  number,
  numSpeculativeTokensOption,
  repeatable,
} from './command';
import { interruptible } from './interrupt';
import { InOrder, Spool } from './jsonl';
import { printable } from '../base/printable';
import { chatPrompt, promptReader, type PromptLine } from './prompts';
import { checkTokenizer, withModel, type ModelFlags, type ModelSession } from './session';
import { printJsonLine, printNote } from './output';

interface GenerateFlags extends ModelFlags, SamplingOptions {
  kvCacheDtype: KvCacheDtype;
  numSpeculativeTokens: number;
  samples: number;
  maxNewTokens: number;
  seed: number;
  stop: string[];
  prompt?: string;
  json?: boolean;
}

interface Output extends Pick<
  Completion,
  'sample' | 'text' | 'finish' | 'thinkingTokens' | 'thinkingClosed'
> {
  index: number;
  ids: number[];
  logprobs: number[];
}

type Prompts = AsyncIterable<PromptLine> | readonly PromptLine[];

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

/** Samples completions of prompts and writes them in order. @throws BAD_ARGUMENT for a wrong --stop, at once */
function generator(
  { model, policy }: ModelSession,
  tokenizer: Tokenizer,
  flags: GenerateFlags,
  write: (output: Output) => void,
): (prompts: Prompts, signal: AbortSignal) => Promise<void> {
  const { samples, seed, maxNewTokens, temperature, topK, topP, minP, repetitionPenalty } = flags;
  const { kvCacheDtype, numSpeculativeTokens } = flags;
  const sampling = { temperature, topK, topP, minP, repetitionPenalty };
  const stops = stopIds(tokenizer, flags.stop);
  const results = new InOrder(write);
  const slots = new SlotLimit();
  const sampler = new EngineSampler({ model, policy, tokenizer, slots: () => slots });
  const wanted = ({ index, prompt, ...rest }: Piece<PromptLine>): SamplePrompt => ({
    ...rest,
    ids: Int32Array.from(prompt.ids),
    thinkOpened: prompt.thinkOpened,
    seed: streamSeed(seed, 'generate', index),
    maxNewTokens: Math.min(maxNewTokens, model.info.maxPositions - prompt.ids.length),
  });
  return async (prompts, signal) => {
    for await (const pieces of windows(prompts, samples)) {
      const onCompletion = ({ prompt, ids, logprobs, ...completion }: Completion): void => {
        const { sample, text, finish, thinkingTokens, thinkingClosed } = completion;
        // A sequence that never started is not a completion, and how many were still waiting is of no interest.
        if (finish === 'cancelled' && ids.length === 0) return;
        const { index } = pieces[prompt]!;
        const numbers = { ids: Array.from(ids), logprobs: Array.from(logprobs) };
        const output = { index, sample, text, ...numbers, finish, thinkingTokens, thinkingClosed };
        results.add(index * samples + sample, output);
      };
      try {
        const settings = { sampling, stopIds: stops, kvCacheDtype, numSpeculativeTokens, signal };
        await sampler.sample(pieces.map(wanted), settings, onCompletion);
      } catch (error) {
        // onCompletion has already had the completions in flight; the caller reports the interruption.
        if (!signal.aborted || errorCode(error) !== 'CANCELLED') throw error;
      }
      if (signal.aborted) break;
    }
    results.flush();
  };
}

/** Prints just the text of a single completion; several get a heading each. */
function writeText({ samples, maxNewTokens }: GenerateFlags): (output: Output) => void {
  return ({ sample, text, ids, finish, thinkingTokens }) => {
    const cut =
      finish === 'length' ? `cut off after ${ids.length} tokens (--max-new-tokens ${maxNewTokens})` : '';
    const facts = `${ids.length} tokens, ${thinkingTokens} of thinking${cut === '' ? '' : ', cut off'}`;
    const heading = samples === 1 ? '' : `--- ${sample + 1} of ${samples}: ${facts}\n`;
    // A file or another program gets the text as it is.
    const shown = process.stdout.isTTY ? printable(text.trim()) : text.trim();
    process.stdout.write(`${heading}${shown}\n`);
    if (samples === 1 && cut !== '') printNote(cut);
  };
}

function refuseMixed(file: string | undefined, { prompt, json }: GenerateFlags): void {
  if (prompt !== undefined && file !== undefined)
    throw badUsage('--prompt and a file of prompts cannot be combined; give one of them.');
  if (prompt === undefined && json === true)
    throw badUsage('--json is only for --prompt; the output for JSON Lines is always JSON Lines.');
}

const noteAll = (lost: LostCharacters): void =>
  lost.sentences().forEach((sentence) => printNote(`acoer: ${sentence}`));

async function generate(file: string | undefined, flags: GenerateFlags): Promise<void> {
  refuseMixed(file, flags);
  await interruptible((signal) =>
    withModel(flags, signal, async (session) => {
      const tokenizer = await loadTokenizer(session.directory);
      checkTokenizer(session, tokenizer);
      const lost = new LostCharacters(tokenizer);
      const reading = { tokenizer, limits: session.model.info, lost };
      const asText = flags.prompt !== undefined && flags.json !== true;
      const generateFor = generator(session, tokenizer, flags, asText ? writeText(flags) : printJsonLine);
      if (flags.prompt !== undefined) {
        const prompt = chatPrompt(flags.prompt, reading);
        noteAll(lost);
        return generateFor([prompt], signal);
      }
      await using prompts = await Spool.create<PromptLine>();
      await prompts.fill(file, promptReader(reading));
      noteAll(lost);
      await generateFor(prompts.read(), signal);
    }),
  );
}

export function define(command: Command): void {
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
    .addOption(kvCacheDtypeOption())
    .addOption(numSpeculativeTokensOption())
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
    .addOption(repeatable('--stop <token>', "a token that ends a completion, in addition to the model's own"))
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
}
