/** `acoer verify`: verdicts as JSON Lines for pairs of reference and completion as JSON Lines, in order. */
import { abortable } from '../base/abortable';
import { type Command, Option } from 'commander';
import { type GradingItem, VerifierPool } from '../grading';
import { badUsage } from '../base/errors';
import { type Grade, referenceRule } from '../judges';
import { openJudge } from '../train';
import type { Problem } from '../base/types';
import type { PresetName } from '#verify/options';
import { BadConfig, optionsFromConfig } from '../grading/config';
import { interruptible } from './interrupt';
import { InOrder, type JsonLine, openInput, parseLinesAsTheyCome } from './jsonl';
import { isRecord } from '../base/json';
import { addJudgeOptions, type JudgeFlags, judgingSettings, rememberJudge } from './judge';
import { printJsonLine, printNote } from './output';

/** Large enough that the cost of passing a batch to a process is small next to grading it. */
const BATCH_LINES = 128;

/** A line for `--judge`. */
interface JudgedItem {
  pred: string;
  problem: Problem;
}

type Entry = GradingItem | JudgedItem | { error: string; line: number };

type Preset = PresetName | 'last-box';

const isBad = (entry: Entry) => 'error' in entry;

const NO_OBJECT = 'not an object; expected {"gold": "...", "pred": "..."}.';

function readEntry({ line, value }: JsonLine, preset: Preset): Entry {
  if (!isRecord(value)) return { error: NO_OBJECT, line };
  const { gold, pred, config } = value;
  for (const [name, text] of Object.entries({ gold, pred })) {
    if (typeof text !== 'string') return { error: `"${name}" must be a string.`, line };
  }
  if (preset === 'last-box') {
    if (config === undefined) return { gold: gold as string, pred: pred as string, preset };
    return { error: '"config" cannot be used with --preset last-box.', line };
  }
  try {
    optionsFromConfig(config, preset);
  } catch (error) {
    if (!(error instanceof BadConfig)) throw error;
    return { error: `config: ${error.message}.`, line };
  }
  return { gold: gold as string, pred: pred as string, config, preset };
}

function readJudged({ line, value }: JsonLine, needsGold: boolean): Entry {
  if (!isRecord(value)) return { error: NO_OBJECT, line };
  const { gold = null, pred, row = {} } = value;
  if (typeof pred !== 'string') return { error: '"pred" must be a string.', line };
  if (typeof gold !== 'string' && (gold !== null || needsGold))
    return { error: '"gold" must be a string.', line };
  if (!isRecord(row)) return { error: '"row" must be an object.', line };
  return { pred, problem: { id: String(line), question: '', gold, level: null, row } };
}

/** The lines that have arrived, in batches for one process each. */
async function* batches(path: string | undefined, read: (line: JsonLine) => Entry): AsyncGenerator<Entry[]> {
  for await (const lines of parseLinesAsTheyCome(await openInput(path))) {
    for (let start = 0; start < lines.length; start += BATCH_LINES) {
      const batch = lines.slice(start, start + BATCH_LINES);
      yield batch.map((one) => ('problem' in one ? { error: one.problem, line: one.line } : read(one)));
    }
  }
}

type Judging = (batch: readonly Entry[]) => Promise<object[]>;

const byPool =
  (pool: VerifierPool): Judging =>
  async (batch) => {
    const verdicts = await pool.verify(batch.filter((entry): entry is GradingItem => 'gold' in entry));
    let next = 0;
    return batch.map((entry) => (isBad(entry) ? entry : verdicts[next++]!));
  };

/** Lengths are not counted: there is no tokenizer. */
const byJudge =
  (grade: Grade): Judging =>
  (batch) =>
    Promise.all(
      batch.map(async (entry) => {
        if (!('problem' in entry)) return entry;
        const { pred: text, problem } = entry;
        const thinking = { thinkingTokens: NaN, thinkingClosed: text.includes('</think>') };
        return (await grade({ text, ...thinking }, problem)).verdict;
      }),
    );

interface VerifyFlags extends JudgeFlags {
  preset?: Preset;
}

async function verify(file: string | undefined, flags: VerifyFlags): Promise<void> {
  const { preset, judge: name } = flags;
  if (preset !== undefined && name !== undefined) {
    throw badUsage('--preset is for the verifier: leave out --preset or --judge.');
  }
  const judging = judgingSettings(flags, null);
  await rememberJudge(judging);
  await interruptible(async (signal) => {
    const pool = new VerifierPool();
    const judge = name === undefined ? null : await openJudge(judging, undefined, signal);
    const judged = judge === null ? byPool(pool) : byJudge(judge.training);
    const { needsGold } = referenceRule(judging);
    const read = (line: JsonLine) =>
      judge === null ? readEntry(line, preset ?? 'math-verify') : readJudged(line, needsGold);
    try {
      let bad = 0;
      const output = new InOrder<object[]>((lines) => lines.forEach(printJsonLine));
      const running = new Set<Promise<void>>();
      let position = 0;
      for await (const batch of batches(file, read)) {
        if (signal.aborted) break;
        bad += batch.filter(isBad).length;
        const at = position++;
        const work: Promise<void> = judged(batch).then((lines) => {
          running.delete(work);
          output.add(at, lines);
        });
        running.add(work);
        // Two batches per process keep all of them busy and memory flat.
        while (running.size >= 2 * pool.concurrency) await abortable(Promise.race(running), signal);
      }
      await abortable(Promise.all(running), signal);
      if (bad > 0) {
        printNote(
          `acoer: ${bad} ${bad === 1 ? 'line' : 'lines'} could not be read; see "error" in the output.`,
        );
        process.exitCode = 1;
      }
    } finally {
      pool.close();
      await judge?.close();
    }
  });
}

export function define(command: Command): void {
  command
    .argument('[file]', 'JSON Lines file; standard input if omitted or -')
    .addOption(
      new Option(
        '--preset <name>',
        'how the verifier finds and compares answers (default: math-verify)',
      ).choices(['math-verify', 'trl', 'last-box']),
    )
    .addHelpText(
      'after',
      `
  printf '%s\\n' '{"gold": "\\\\frac12", "pred": "\\\\boxed{0.5}"}' | acoer verify

Each line has "gold" and "pred", and optionally "config" with math_verify's
option names (float_rounding, numeric_precision, strict, match_types,
allow_set_relation_comp, ...). Each result is {"correct","status","extracted"};
status is correct, incorrect, unparseable, timeout or gold-unparseable. An
unreadable line gives {"error","line"}, and the exit code is then 1.

With --judge, "gold" is optional where the judge needs none, and "row" holds the
columns that a judge in a file looks at.`,
    )
    .action(verify);
  addJudgeOptions(command);
}
