/** `acoer sft`: supervised fine-tuning from the command line. */
import type { Command } from 'commander';
import { printableLine } from '../base/printable';
import {
  describeSft,
  goOn,
  sft,
  SFT_CALL,
  type SftEvent,
  type SftInput,
  type SftOptions,
  type SftSummary,
} from '../sft';
import { onlySettings } from '../train';
import { addEngineSettings, ENGINE_SETTINGS, integer, number, path, repeatable } from './command';
import { DownloadView } from './download';
import { printJsonLine, printNote, printText } from './output';
import { layersOf, resumedRun, type RunFlags, stoppable } from './run-call';
import { alignTable } from './table';
import { gigabytes, grouped } from '../base/text';
import { count, typeOf } from './view/format';

/** Options that are shortcuts for settings. */
const SETTINGS = [
  'model',
  'adapter',
  'full',
  'dataset',
  'maxSteps',
  'learningRate',
  'seed',
  ...ENGINE_SETTINGS,
] as const;

type SftFlags = RunFlags & Partial<Pick<SftInput, (typeof SETTINGS)[number]>>;

export function define(command: Command): void {
  addEngineSettings(
    command
      .argument('[config]', 'YAML or JSON file of settings')
      .option('--model <model>', 'tiny, a folder in Hugging Face layout, or org/name[@revision] on the hub')
      .option('--adapter <folder>', "LoRA adapter to continue training: PEFT's, or final/ of a run", path)
      .option('--full', 'train all weights instead of a LoRA adapter')
      .option(
        '--dataset <name>',
        'rows with messages, with prompt and completion, or with problem and solution: a file, a folder or org/name',
      )
      .addOption(repeatable('--set <path=value>', 'override a setting, e.g. --set batchSize=16'))
      .option('--resume [run]', 'resume a run (default: --out, else the latest in runs/)')
      .option('--trust', 'with --resume: run the sinks that the run names')
      .option('--out <folder>', 'folder of the run (default: runs/<date>-<name>)', path)
      .option('--max-steps <n>', 'optimiser updates (default: epochs decide)', integer(1))
      .option('--learning-rate <rate>', 'peak learning rate', number(0))
      .option('--seed <n>', 'seed of the run', integer(0)),
  )
    .option('--ignore-plan', 'start even if the plan says that the run will not fit in memory')
    .option('--json', 'print the summary as JSON instead of a table')
    .option('--describe', 'print every setting with its default and meaning, and exit')
    .action((config: string | undefined, flags: SftFlags) => runSft(config, flags));
}

/** What `sft` is called with; what is not given is left to the run or the defaults. */
function sftCall(configPath: string | undefined, flags: SftFlags): [SftInput, SftOptions] {
  const layers = layersOf(configPath, flags, SETTINGS);
  const settings = onlySettings(SFT_CALL, Object.assign({}, ...layers) as SftInput);
  const resume = resumedRun(flags);
  if (resume === undefined) return [settings, { out: flags.out }];
  return [settings, { resume, ...(flags.trust === true && { trust: true }) }];
}

/** Time between two lines of progress; the last step always has one. */
const EVERY_MS = 2_000;

/** Prints what a run tells, to stderr but for its folder. */
class SftView {
  private steps = 0;
  private saidMs = -Infinity;
  private fetched: { view: DownloadView; doneBytes: number } | null = null;

  constructor(private readonly json: boolean) {}

  onEvent(event: SftEvent): void {
    switch (event.type) {
      case 'run':
        this.steps = event.steps;
        if (!this.json) printText(`run ${printableLine(event.directory)}`);
        if (event.resumedStep !== null) printNote(`resumed after step ${event.resumedStep}`);
        printNote(`${count(event.examples, 'example')}, ${count(event.steps, 'step')}`);
        break;
      case 'encoding':
        printNote(`encoding  ${grouped(event.done)} of ${count(event.total, 'example')}`);
        break;
      case 'loaded':
        printNote(
          `${event.model}: ${count(event.parameters, 'parameter')}, ${grouped(event.trained)} of them trained, ${typeOf(event)} on ${event.device}`,
        );
        break;
      case 'step':
        this.step(event);
        break;
      case 'held-out':
        printNote(
          `held out  loss ${event.loss.toFixed(4)}  entropy ${event.entropy.toFixed(4)}  after step ${event.step}`,
        );
        break;
      case 'warning':
      case 'hang':
        printNote(`warning: ${event.message}`);
        break;
      case 'download':
        this.download(event);
        break;
      case 'training-plan': {
        const { memory, device } = event.plan;
        printNote(
          `plan  ${gigabytes(memory.peakBytes, 2)} of ${gigabytes(device.freeBytes, 2)} at its peak (${memory.peakPhase})`,
        );
        break;
      }
      case 'checkpoint':
      case 'finished':
        break;
    }
  }

  /** The model and the data are two downloads; the second begins with fewer bytes. */
  private download(progress: Extract<SftEvent, { type: 'download' }>): void {
    const { doneBytes } = progress;
    const going = this.fetched !== null && doneBytes >= this.fetched.doneBytes ? this.fetched : null;
    this.fetched = { view: going?.view ?? new DownloadView('model and data'), doneBytes };
    this.fetched.view.onProgress(progress);
  }

  private step({ index: step, metrics }: Extract<SftEvent, { type: 'step' }>): void {
    const now = performance.now();
    if (step < this.steps && now - this.saidMs < EVERY_MS) return;
    this.saidMs = now;
    const { loss, learning_rate: rate, epoch, num_tokens: tokens } = metrics;
    const figures = [
      `step ${String(step).padStart(String(this.steps).length)}/${this.steps}`,
      `loss ${loss!.toFixed(4)}`,
      `rate ${rate!.toExponential(2)}`,
      `epoch ${epoch!.toFixed(2)}`,
      count(tokens!, 'token'),
    ];
    printNote(figures.join('  '));
  }
}

function closing({ run, loss, numTokens, heldOut }: SftSummary): string[] {
  const { full } = run;
  const folder = printableLine(run.directory);
  const facts = [
    ['loss', `${loss.first.toFixed(4)} -> ${loss.last.toFixed(4)} per completion token, first and last step`],
    ...(heldOut === undefined
      ? []
      : [
          [
            'held out',
            `loss ${heldOut.base.loss.toFixed(4)} -> ${heldOut.trained.loss.toFixed(4)} on ${count(heldOut.examples, 'example')}, lowest ${heldOut.best.loss.toFixed(4)} at step ${heldOut.best.step}`,
          ],
        ]),
    [
      'trained on',
      `${count(run.examples, 'example')}, ${count(numTokens, 'token')} in ${count(run.steps, 'step')}`,
    ],
    [full ? 'model' : 'adapter', `${folder}/final`],
  ];
  return [
    ...alignTable(facts, 2),
    '',
    `To continue with GRPO: acoer train ${goOn({ full }, `${folder}/final`)}`,
  ];
}

async function runSft(configPath: string | undefined, flags: SftFlags): Promise<void> {
  if (flags.describe === true) {
    printText(describeSft().trimEnd());
    return;
  }
  const [settings, options] = sftCall(configPath, flags);
  const view = new SftView(flags.json === true);
  const onEvent = (event: SftEvent): void => view.onEvent(event);
  const called = { ...options, onEvent, exitWhenBlocked: true, ignorePlan: flags.ignorePlan };
  const summary = await stoppable(printNote, (signal) => sft(settings, { ...called, signal }));
  if (flags.json === true) printJsonLine(summary);
  else printText(closing(summary).join('\n'));
}
