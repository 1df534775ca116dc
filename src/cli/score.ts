/** `acoer score`: log-probs and entropies as JSON Lines for token ids as JSON Lines. */
import type { Command } from 'commander';
import type { PackedSequences } from '../engine/types';
import { addEngineOptions, addModelOptions } from './command';
import { interruptible } from './interrupt';
import { Spool } from './jsonl';
import { type ScoreLine, scoreReader } from './prompts';
import { type ModelFlags, type ModelSession, withModel } from './session';
import { printJsonLine } from './output';

/** Tokens packed into one engine call. */
const WINDOW_TOKENS = 8192;

function pack(lines: readonly ScoreLine[]): PackedSequences {
  const offsets = new Int32Array(lines.length + 1);
  lines.forEach((line, b) => (offsets[b + 1] = offsets[b]! + line.ids.length));
  return {
    ids: Int32Array.from(lines.flatMap((line) => line.ids)),
    offsets,
    promptLengths: Int32Array.from(lines, (line) => line.promptLength),
  };
}

/** Lines in order, in windows of at most WINDOW_TOKENS tokens unless a single line is longer. */
async function* windows(lines: AsyncIterable<ScoreLine>): AsyncGenerator<ScoreLine[]> {
  let window: ScoreLine[] = [];
  let tokens = 0;
  for await (const line of lines) {
    if (window.length > 0 && tokens + line.ids.length > WINDOW_TOKENS) {
      yield window;
      window = [];
      tokens = 0;
    }
    window.push(line);
    tokens += line.ids.length;
  }
  if (window.length > 0) yield window;
}

async function scoreWindow(session: ModelSession, lines: ScoreLine[], signal: AbortSignal): Promise<void> {
  // A line whose ids are all prompt has an empty result and needs no computation.
  const scored = lines.filter((line) => line.promptLength < line.ids.length);
  const { logprobs, entropies } =
    scored.length === 0
      ? { logprobs: new Float64Array(), entropies: new Float64Array() }
      : await session.model.score(pack(scored), { policy: session.policy, temperature: 1, signal });
  let start = 0;
  for (const line of lines) {
    const end = start + line.ids.length - line.promptLength;
    printJsonLine({
      logprobs: Array.from(logprobs.subarray(start, end)),
      entropies: Array.from(entropies.subarray(start, end)),
    });
    start = end;
  }
}

async function score(file: string | undefined, flags: ModelFlags): Promise<void> {
  await interruptible((signal) =>
    withModel(flags, signal, async (session) => {
      await using lines = await Spool.create<ScoreLine>();
      await lines.fill(file, scoreReader(session.model.info));
      for await (const window of windows(lines.read())) await scoreWindow(session, window, signal);
    }),
  );
}

export function define(command: Command): void {
  addModelOptions(command)
    .argument('[file]', 'JSON Lines file; standard input if omitted or -')
    .addHelpText(
      'after',
      `
Each line is {"ids": [1, 2, 3], "promptLength": 1}; each result is
{"logprobs","entropies"} in nats at temperature 1, one number per token from
promptLength on.`,
    )
    .action(score);
  addEngineOptions(command);
}
