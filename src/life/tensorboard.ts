/** TensorBoard as a sink: each step's numbers, histograms and samples of its table, the settings (docs/trackers.md). */
import { existsSync } from 'node:fs';
import { finiteNumbers, isRecord } from '../base/json';
import { trackerTag } from '../base/metric-names';
import {
  EventFile,
  experimentValue,
  histogramValue,
  readCompletions,
  readEvents,
  readSoundMetrics,
  scalarValue,
  sessionEndValue,
  sessionStartValue,
  summaryEvent,
  textValue,
  type HparamValue,
  type RunDirectory,
  type SummaryValue,
  type CompletionRow,
  type StoredCompletion,
} from '../run';
import type { StepMetrics } from '../base/types';
import { evaluationMetrics, type TrainEvent } from './events';
import type { Sink } from './sink';
import { printable } from '../base/printable';
import { maximum } from '../base/statistics';

/** What trackers show of a completion. */
export interface Sample extends Pick<
  StoredCompletion,
  'prompt' | 'completion' | 'correct' | 'thinkingTokens' | 'totalTokens'
> {
  reward: number;
}

export const sampleOf = ({ rollout, reward }: CompletionRow): Sample => ({
  prompt: rollout.prompt.text,
  completion: rollout.text,
  correct: rollout.verdict.correct,
  thinkingTokens: rollout.thinkingTokens,
  totalTokens: rollout.totalTokens,
  reward: reward.total,
});

export const storedSample = (row: StoredCompletion): Sample => ({ ...row, reward: row.scored?.total ?? NaN });

const SHOWN_SAMPLES = 4;
/** UTF-16 units shown of the beginning and of the end of a text. */
const HEAD = 1500;
const TAIL = 700;

function shortened(text: string): string {
  const left = text.length - HEAD - TAIL;
  return left <= 0 ? text : `${text.slice(0, HEAD)}\n[... ${left} characters ...]\n${text.slice(-TAIL)}`;
}

/** A code block whose fence is longer than any run of backticks inside it. */
function fenced(text: string): string {
  const shown = printable(shortened(text));
  const longest = Math.max(3, maximum(Array.from(shown.matchAll(/`+/g), ([run]) => run.length)));
  const fence = '`'.repeat(longest + 1);
  return `${fence}\n${shown}\n${fence}`;
}

/** Up to four of the completions, evenly spread over the groups. */
export function samplesMarkdown(samples: readonly Sample[]): string {
  const count = Math.min(SHOWN_SAMPLES, samples.length);
  const shown = Array.from({ length: count }, (_, i) => samples[Math.floor((i * samples.length) / count)]!);
  return shown
    .map(({ prompt, completion, correct, thinkingTokens, totalTokens, reward }) => {
      const head = `**${correct ? 'Correct' : 'Wrong'}**, ${thinkingTokens} thinking tokens of ${totalTokens}, reward ${reward.toFixed(3)}`;
      return [head, fenced(prompt), fenced(completion)].join('\n\n');
    })
    .join('\n\n');
}

const LONGEST_HPARAM = 200;

/** Every number, text and truth of the settings; those inside others are named with dots. */
function flatSettings(settings: object, prefix = ''): Record<string, HparamValue> {
  const entries = Object.entries(settings).flatMap(([name, value]: [string, unknown]) => {
    const path = `${prefix}${name}`;
    if (isRecord(value)) return Object.entries(flatSettings(value, `${path}.`));
    if (typeof value === 'number' || typeof value === 'boolean') return [[path, value]];
    if (value === null || value === undefined) return [];
    const text = typeof value === 'string' ? value : JSON.stringify(value);
    return [[path, text.slice(0, LONGEST_HPARAM)]];
  });
  return Object.fromEntries(entries) as Record<string, HparamValue>;
}

const finiteEntries = (metrics: StepMetrics): [name: string, value: number][] =>
  Object.entries(finiteNumbers(metrics).finite) as [string, number][];

/** The step itself is every event's place on the axis. */
const scalars = (metrics: StepMetrics): SummaryValue[] =>
  finiteEntries(metrics).flatMap(([name, value]) =>
    name === 'step' ? [] : [scalarValue(trackerTag(name), value)],
  );

function tableValues(samples: readonly Sample[]): SummaryValue[] {
  const columns = {
    'completions/thinking_tokens': samples.map(({ thinkingTokens }) => thinkingTokens),
    'completions/total_tokens': samples.map(({ totalTokens }) => totalTokens),
    'completions/reward': samples.map(({ reward }) => reward),
  };
  const histograms = Object.entries(columns).flatMap(([tag, column]) => {
    const finite = column.filter(Number.isFinite);
    return finite.length === 0 ? [] : [histogramValue(tag, finite)];
  });
  return [...histograms, textValue('completions/samples', samplesMarkdown(samples))];
}

/** The evaluation in a line or of the trained model, under names of its own: `final/greedy_accuracy`, ... */
const finalScalars = (metrics: StepMetrics): SummaryValue[] =>
  finiteEntries(metrics)
    .filter(([name]) => name.startsWith('eval/'))
    .map(([name, value]) => scalarValue(name.replace('eval/', 'final/'), value));

/** The settings that are shown, and those that the file depends on. */
export interface TensorBoardSettings {
  maxSteps: number;
  /** Absent in runs that sample nothing. */
  completionsSteps?: number;
}

export class TensorBoardSink implements Required<Sink> {
  private file: EventFile | null = null;
  /** Completions of a step whose line is yet to come. */
  private table: { step: number; samples: Sample[] } | null = null;
  private rewoundTo = 0;
  private last: StepMetrics = {};
  /** The trained model's evaluation, unless it is that of the last step. */
  private trained: StepMetrics = {};

  /**
   * @param judged the tags that judge a run
   * @param now in seconds since 1970
   */
  constructor(
    private readonly directory: RunDirectory,
    private readonly config: TensorBoardSettings,
    private readonly judged: readonly string[],
    private readonly now: () => number = () => Date.now() / 1000,
  ) {}

  /** Writes the file again with one event for each line of metrics.jsonl, which is already at `step`. */
  async rewind(step: number): Promise<void> {
    const { directory } = this;
    const lines = await readSoundMetrics(directory.metrics());
    const { begun, steps } = readEvents(directory.tensorboard());
    this.closeFile();
    const events: Buffer[] = [];
    // Lines without an event (a fork's, or from before `tensorboard` was on) are dated by their step times.
    let wallTime = this.now();
    for (const line of lines.toReversed()) {
      const stored = steps.get(line.step!);
      wallTime = stored?.wallTime ?? wallTime;
      events.push(stored?.event ?? summaryEvent(wallTime, line.step!, scalars(line)));
      wallTime -= line.step_time ?? 0;
    }
    const start = begun ?? wallTime;
    const header = summaryEvent(start, 0, this.settings(start));
    this.file = new EventFile(directory.tensorboard(), directory.stagedEvents(), start, [
      header,
      ...events.reverse(),
    ]);
    [this.table, this.rewoundTo, this.last] = [null, step, lines.at(-1) ?? {}];
  }

  private settings(start: number): SummaryValue[] {
    const hparams = flatSettings(this.config);
    return [experimentValue(start, hparams, this.judged), sessionStartValue(start, hparams)];
  }

  completions(step: number, rows: Parameters<NonNullable<Sink['completions']>>[1]): void {
    this.table = { step, samples: rows.map(sampleOf) };
  }

  async step(metrics: StepMetrics): Promise<void> {
    const step = metrics.step!;
    const samples = await this.samplesOf(step);
    const values = [...scalars(metrics), ...(samples === null ? [] : tableValues(samples))];
    this.file!.append(summaryEvent(this.now(), step, values));
    [this.table, this.last] = [null, metrics];
  }

  /** The table of a step. If the run was interrupted between the two, only the table's file has it. */
  private async samplesOf(step: number): Promise<Sample[] | null> {
    if (this.table?.step === step) return this.table.samples;
    const { completionsSteps = 0 } = this.config;
    const isDue = completionsSteps > 0 && step % completionsSteps === 0;
    const path = this.directory.completions(step);
    if (!isDue || step !== this.rewoundTo + 1 || !existsSync(path)) return null;
    return (await readCompletions(path)).map(storedSample);
  }

  event(event: TrainEvent): void {
    if (event.type !== 'evaluated' || event.phase !== 'trained') return;
    const evaluation = { greedy: null, sampled: null, [event.kind]: event.summary };
    Object.assign(this.trained, evaluationMetrics(evaluation));
  }

  flush(): void {
    this.file?.sync();
  }

  close(): void {
    if (this.file === null) return;
    const now = this.now();
    const status = this.last.step === this.config.maxSteps ? 'success' : 'failure';
    const results = status === 'success' ? finalScalars({ ...this.last, ...this.trained }) : [];
    this.file.append(summaryEvent(now, 0, [...results, sessionEndValue(now, status)]));
    this.closeFile();
  }

  private closeFile(): void {
    const { file } = this;
    this.file = null;
    file?.close();
  }
}
