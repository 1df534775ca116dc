/** A run's output while it trains: lines that stay and, on a terminal, a live block below them. */
import type { Config } from '../../config';
import type { KnownMetrics } from '../../base/metric-names';
import { warmupSteps } from '../../grpo/schedule';
import type { AcceptedChange, Rollback } from '../../run';
import { gigabytes, grouped, percent } from '../../base/text';
import type { TrainEvent } from '../../train';
import { DownloadView } from '../download';
import { printableMessage } from '../../base/printable';
import type { Answer } from './closing';
import { colorsOf, isTerminal, type Colors } from './colors';
import { completionLines, problemLines, shownSample } from './completion';
import { KEEP_QUESTION, KEEP_SAMPLE } from './cut';
import { count, healthLine, typeOf } from './format';
import { liveLines, paintOf, stepLine } from './live';
import { EVALUATED, ProgressState } from './progress-state';
import { LiveRegion, lineWidth, type SharedStream } from './terminal';
import { wrapWords } from './text';

/** Column where the text after a label begins. */
const INDENT = ' '.repeat(11);

const rollbackLine = ({ number, from, to, pressure }: Rollback) =>
  `rollback ${number}: from step ${from} to the checkpoint of step ${to}, efficiency pressure ${Number(pressure.toPrecision(3))}, other seeds`;

const acceptedLine = ({ step, files }: AcceptedChange) =>
  `accepted   another reward file from step ${step + 1} on: ${files.join('; ')}`;

function rewardText({ reward, formatWeight }: Config): string {
  const entries = typeof reward === 'string' ? [{ name: reward, weight: 1 }] : reward;
  const all = [...entries, ...(formatWeight > 0 ? [{ name: 'format', weight: formatWeight }] : [])];
  return all.map(({ name, weight }) => (weight === 1 ? name : `${weight} x ${name}`)).join(' + ');
}

/** What the run is going to do. */
function planLines(config: Config): string[] {
  const { promptsPerStep, numGenerations, stepsPerGeneration, numIterations } = config;
  const perUpdate = promptsPerStep * numGenerations;
  const warmup = warmupSteps(config.warmupRatio, config.maxSteps);
  const lines = [
    `reward     ${rewardText(config)}`,
    `each step  ${count(promptsPerStep, 'prompt')} x ${grouped(numGenerations)} completions = ${grouped(perUpdate)}, up to ${grouped(config.maxCompletionLength)} tokens each`,
    `training   ${count(config.maxSteps, 'step')}, ${config.lossType} loss, rate ${config.learningRate} ${config.lrSchedulerType} after ${warmup} warm-up, ${config.full ? 'all weights' : `LoRA rank ${config.loraRank}`}, seed ${config.seed}`,
  ];
  if (stepsPerGeneration * numIterations > 1) {
    const completions = perUpdate * stepsPerGeneration;
    const updates = stepsPerGeneration * numIterations;
    lines.push(
      `generation ${grouped(completions)} completions together, used for ${count(updates, 'update')}`,
    );
  }
  return lines;
}

/** Nobody reads a line for each of many fast steps, so only every tenth stays. */
const STAYS_EVERY = 10;
/** If steps take longer than this, the line of every one stays. */
const SLOW_STEP_MS = 5_000;

export interface ProgressOptions {
  /** Other streams that show on the same terminal. */
  others?: readonly SharedStream[];
  /** The lines of metrics of a run that is resumed. */
  recorded?: (directory: string) => readonly KnownMetrics[];
  now?: () => number;
}

export class ProgressView {
  /** The greedy answers to one problem: before training, and the newest one since. */
  readonly answers: { base: Answer | null; trained: Answer | null } = { base: null, trained: null };
  readonly colors: Colors;
  private readonly state: ProgressState;
  /** null where lines cannot be redrawn. */
  private region: LiveRegion | null;
  private readonly download: DownloadView;
  private readonly recorded: NonNullable<ProgressOptions['recorded']>;
  private readonly now: () => number;
  private lastStepAt = 0;

  constructor(
    private readonly stream: SharedStream,
    { others = [], recorded = () => [], now = () => performance.now() }: ProgressOptions = {},
  ) {
    this.now = now;
    this.recorded = recorded;
    this.colors = colorsOf(stream);
    this.state = new ProgressState(now);
    const render = (width: number) => liveLines(this.state, width, this.colors);
    this.region = isTerminal(stream) ? new LiveRegion(stream, render, others) : null;
    this.download = new DownloadView('from the hub', stream);
  }

  /** Columns a line may fill; unlimited when not on a terminal. */
  private get width(): number {
    return this.stream.isTTY === true ? lineWidth(this.stream) : Infinity;
  }

  readonly onEvent = (event: TrainEvent): void => {
    if (event.type === 'download') {
      this.download.onProgress(event);
      return;
    }
    if (event.type === 'run') this.begin(event);
    this.state.observe(event);
    this.show(event);
    this.region?.update();
  };

  private begin({ config, directory, resumedStep }: TrainEvent & { type: 'run' }): void {
    const made = resumedStep ?? 0;
    const earlier = made === 0 ? [] : this.recorded(directory);
    this.state.begin(
      config.maxSteps,
      earlier.filter(({ step = 0 }) => step <= made),
    );
    for (const line of planLines(config)) this.print(line);
    if (resumedStep !== null) this.print(`resuming after step ${resumedStep}`);
  }

  /** Prints what stays of an event. */
  private show(event: TrainEvent): void {
    switch (event.type) {
      case 'plan':
        this.print(
          `memory     ${gigabytes(event.plan.memory.peakBytes)} planned, ${gigabytes(event.plan.device.freeBytes)} available`,
        );
        break;
      case 'loaded':
        this.lastStepAt = this.now();
        this.print(
          `model      ${event.model}: ${grouped(event.parameters)} parameters, ${grouped(event.trained)} trained, ${typeOf(event)} on ${event.device}`,
        );
        break;
      case 'sampler':
        this.print(`sampler    ${event.message}`);
        break;
      case 'answer':
        this.answers[event.phase === 'base' ? 'base' : 'trained'] = event;
        break;
      case 'evaluated':
        this.evaluated(event);
        break;
      case 'step':
        this.step(event);
        break;
      case 'sample':
        this.sample(event);
        break;
      case 'checkpoint':
        this.print(`checkpoint ${event.path}`);
        break;
      case 'health':
        this.print(`monitor    ${healthLine(event.change)}`, paintOf(event.change.to, this.colors));
        break;
      case 'rollback':
        this.print(rollbackLine(event.rollback), this.colors.yellow);
        break;
      case 'accepted':
        this.print(acceptedLine(event.change), this.colors.yellow);
        break;
      case 'hang':
        this.print(`watchdog   ${event.message}`, this.colors.red);
        break;
      case 'warning':
        this.print(`warning: ${event.message}`, this.colors.yellow);
        break;
      // These are shown elsewhere: in the live block, by `begin` and by the view of downloads.
      case 'run':
      case 'download':
      case 'eval-progress':
      case 'decode-progress':
    }
  }

  private evaluated({ phase, kind, summary }: TrainEvent & { type: 'evaluated' }): void {
    const { accuracy, thinkingTokens, n } = summary;
    this.print(
      `${EVALUATED[phase]}, ${kind}: accuracy ${percent(accuracy)}, ${thinkingTokens.toFixed(1)} thinking tokens, ${n} problems`,
    );
    this.lastStepAt = this.now();
  }

  private step({ index, metrics }: TrainEvent & { type: 'step' }): void {
    const tookMs = this.now() - this.lastStepAt;
    this.lastStepAt = this.now();
    const { maxSteps, leftMs } = this.state;
    const regular = index === 1 || index % STAYS_EVERY === 0 || index === maxSteps;
    if (!regular && tookMs < SLOW_STEP_MS) return;
    this.print(stepLine({ index, maxSteps, metrics, leftMs, width: this.width }));
  }

  private sample({ step, row }: TrainEvent & { type: 'sample' }): void {
    const { problem } = row.rollout.prompt;
    const { width, colors } = this;
    const style = { colors, width, thinking: KEEP_SAMPLE, answer: KEEP_SAMPLE };
    this.printLines([
      colors.bold(`a completion of step ${step}`),
      ...problemLines(problem, width, KEEP_QUESTION),
      ...completionLines(shownSample(row), style),
    ]);
  }

  /** Prints a line that stays, wrapped and indented on a narrow terminal. */
  print(text: string, paint: (line: string) => string = (line) => line): void {
    const lines = printableMessage(text).split('\n');
    this.printLines(lines.flatMap((line) => wrapWords(line, this.width, INDENT)).map(paint));
  }

  private printLines(lines: readonly string[]): void {
    if (this.region !== null) this.region.print(lines);
    else this.stream.write(`${lines.join('\n')}\n`);
  }

  /** Says that the run was asked to stop; from here on only lines that stay are printed. */
  readonly stopping = (text: string): void => {
    // Ctrl-C left `^C` on the line; the live block's is redrawn.
    const lineEnd = this.region === null ? '\n' : '';
    this.close();
    this.stream.write(`${lineEnd}${text}\n`);
  };

  /** Removes the live block for good and shows the cursor. */
  close(): void {
    this.region?.close();
    this.region = null;
  }
}
