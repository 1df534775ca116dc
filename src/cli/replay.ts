/** `acoer replay`: repeats a refused step from its dump. */
import type { Command } from 'commander';
import { describeNonFinite } from '../grpo';
import { replay, type ReplayOptions, type ReplayReport } from '../train';
import { deviceName, integer } from './command';
import { showDownload } from './download';
import { interruptible } from './interrupt';
import { printJsonLine, printText } from './output';

/** Maximum lines of a list in the text report. */
const SHOWN = 20;

interface ReplayFlags extends Pick<ReplayOptions, 'device' | 'threads' | 'each'> {
  json?: boolean;
}

export function define(command: Command): void {
  command
    .argument('<dump>', 'folder of the dump, e.g. runs/NAME/non-finite/step-000123')
    .option('--device <device>', "auto, cpu, cuda or cuda:N (default: the run's)", deviceName)
    .option('--threads <n>', "CPU threads (default: the run's)", integer(1, 4096))
    .option(
      '--each',
      'also repeat it for each completion alone, to find those that are not finite by themselves',
    )
    .option('--json', 'print the report as JSON')
    .addHelpText(
      'after',
      `
Exit code 0: the same number was not finite, and all measurements equal the
dump's, bit for bit. 1: the replay differs; the differences are printed. 2: the
folder is not a dump, or is damaged.`,
    )
    .action(runReplay);
}

async function runReplay(dump: string, { json, ...flags }: ReplayFlags): Promise<void> {
  const report = await interruptible((signal) =>
    replay(dump, { ...flags, ...showDownload('the model of the dump', signal) }),
  );
  if (json === true) printJsonLine(report);
  else printText(reportLines(report).join('\n'));
  if (!report.reproduced) process.exitCode = 1;
}

function reportLines(report: ReplayReport): string[] {
  const { step, model, recorded, found, learningRate, differences, offenders, maker } = report;
  const moved = JSON.stringify(maker.then) !== JSON.stringify(maker.now);
  return [
    `step ${step}, ${model}, learning rate ${learningRate}`,
    `dumped: ${describeNonFinite(recorded)} (phase ${recorded.phase})`,
    ...(moved ? [`run by ${setUp(maker.then)}; replayed by ${setUp(maker.now)}`] : []),
    ...report.microBatches.map(
      ({ samples, tokens, loss }, i) =>
        `micro-batch ${i}: ${samples} completions, ${tokens} tokens, ${loss === null ? 'refused' : `loss ${loss}`}`,
    ),
    `now:    ${found === null ? 'everything is finite' : describeNonFinite(found)}`,
    ...gradientLines(report),
    ...(offenders === null ? [] : offenderLines(offenders)),
    ...(report.reproduced ? ['reproduced, bit for bit'] : ['not reproduced', ...shown(differences)]),
  ];
}

const shown = (lines: readonly string[]) =>
  lines.length > SHOWN ? [...lines.slice(0, SHOWN), '... (--json shows all)'] : lines;

const setUp = (maker: ReplayReport['maker']['now']) =>
  Object.entries(maker)
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');

function gradientLines({ gradient }: ReplayReport): string[] {
  if (gradient === null) return [];
  const { parameter, parameters, of } = gradient;
  if (parameter === null) return ['        every gradient is finite, but their norm is not'];
  return [`        ${parameters} of ${of} parameters have such a gradient; the first is ${parameter}`];
}

function offenderLines(offenders: NonNullable<ReplayReport['offenders']>): string[] {
  if (offenders.length === 0) return ['each completion is finite by itself'];
  return [
    `not finite by themselves: ${offenders.length} completions`,
    ...shown(
      offenders.map(({ promptIndex, sample, what }) => `prompt ${promptIndex}, sample ${sample}: ${what}`),
    ),
  ];
}
