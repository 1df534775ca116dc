/** What a supervised run has from the life that it shares with `train`: trackers, sinks, progress and the watchdog. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { readEvents, readMetrics, readProgress } from '../../src/run';
import type { StepMetrics } from '../../src/base/types';
import { sft, type SftEvent } from '../../src/sft';
import type * as Library from '../../src/index';
import { builtCli } from '../helpers/cli';
import { untimedFiles } from '../helpers/run-files';
import { ToldServer } from '../helpers/told-server';
import { asSftCall, type GivenSft } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-sft-life-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const dataset = Array.from({ length: 12 }, (_, i) => ({
  prompt: `${i % 10}+1=`,
  completion: `${(i + 1) % 10}`,
}));
const settings = (out: string, more: GivenSft = {}): GivenSft => ({
  ...{ model: 'tiny', dataset, batchSize: 4, epochs: 1, threads: 1, device: 'cpu', out: join(root, out) },
  ...more,
});

test('progress.json follows it to its end, and TensorBoard, CSV and sinks get every line', async () => {
  const lines: StepMetrics[] = [];
  const calls: string[] = [];
  const sink = {
    rewind: (step: number) => void calls.push(`rewind ${step}`),
    step: (line: StepMetrics) => void lines.push(line),
    event: ({ type }: { type: string }) => void calls.push(type),
    close: () => void calls.push('close'),
  };
  const phases: string[] = [];
  const onEvent = (event: SftEvent) => {
    if (event.type === 'step') phases.push(readProgress(join(root, 'watched'))!.phase);
  };
  await sft(...asSftCall(settings('watched', { csv: true, sinks: [sink], onEvent })));
  const folder = join(root, 'watched');
  const metrics = readMetrics(join(folder, 'metrics.jsonl'));
  expect(lines).toEqual(metrics);
  expect(calls[0]).toBe('run');
  expect(calls).toContain('rewind 0');
  expect(calls.filter((call) => call === 'step')).toHaveLength(3);
  expect(calls.at(-1)).toBe('close');
  expect([...readEvents(join(folder, 'tensorboard')).steps.keys()]).toEqual([1, 2, 3]);
  expect(existsSync(join(folder, 'metrics.csv'))).toBe(true);
  expect(phases).toHaveLength(3);
  expect(readProgress(folder)).toMatchObject({ phase: 'finished', step: 3, maxSteps: 3 });
});

test('a hang ends it with a dump and the command that resumes it, and resumed it is the whole run', async () => {
  const whole = settings('whole', { tensorboard: false });
  await sft(...asSftCall(whole));
  const hung = settings('hung', { tensorboard: false, watchdogPhaseMs: { train: 1e-3 } });
  const events: SftEvent[] = [];
  await expect(
    sft(...asSftCall({ ...hung, onEvent: (event) => void events.push(event) })),
  ).rejects.toMatchObject({
    code: 'HUNG',
    message: expect.stringContaining(`acoer sft --resume ${hung.out!}`) as string,
  });
  expect(events).toContainEqual(expect.objectContaining({ type: 'hang', phase: 'train', step: 1 }));
  expect(readdirSync(hung.out!)).toContainEqual(expect.stringMatching(/^watchdog-.*train/));
  expect(readProgress(hung.out!)).toMatchObject({ phase: 'failed' });
  await sft({ watchdogPhaseMs: { train: null } }, { resume: hung.out!, dataset });
  // The hang may be noticed before the first step is made or after it, when the run has a checkpoint of it.
  const own = /^watchdog-|^config\.json|state\.json|^checkpoints\/step-000001/;
  const files = (folder: string) => new Map([...untimedFiles(folder)].filter(([name]) => !own.test(name)));
  expect(files(hung.out!)).toEqual(files(whole.out!));
});

test('sinks in files run in threads; a run that names one that nobody named needs trust', async () => {
  const sink = join(root, 'sink.mjs');
  const log = join(root, 'log');
  writeFileSync(
    sink,
    `import { appendFileSync } from 'node:fs';
     export default ({ config }) => ({ step: ({ step }) => appendFileSync(${JSON.stringify(log)}, config.epochs + ':' + step + ' ') });`,
  );
  // Threads need JavaScript.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  const { sft } = require(join(dirname(builtCli()), '..', 'index.js')) as typeof Library;
  const run = settings('sink', { sinks: [sink], maxSteps: 2 });
  await sft(...asSftCall(run));
  expect(readFileSync(log, 'utf8')).toBe('1:1 1:2 ');
  writeFileSync(sink, 'export default () => ({ step() {} }); // another');
  const resume = { resume: run.out!, dataset };
  await expect(sft({ maxSteps: 3 }, resume)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringContaining('--trust') as string,
  });
  await sft({ maxSteps: 3 }, { ...resume, trust: true });
  expect(readMetrics(join(run.out!, 'metrics.jsonl'))).toHaveLength(3);
});

test('an address is told how it ended, and is in none of its files', async () => {
  for (const name of ['HTTP_PROXY', 'http_proxy', 'ACOER_NOTIFY']) delete process.env[name];
  const server = await new ToldServer().start();
  const mark = 'T0PSECRET';
  await sft(...asSftCall(settings('told', { notify: server.url(mark) })));
  await server.stop();
  expect(server.told).toMatchObject([{ event: 'finished', run: 'told', step: 3, maxSteps: 3 }]);
  expect(server.told[0]!.text).toMatch(/^told: Finished after step 3\. Loss [\d.]+ -> [\d.]+\.$/);
  const files = readdirSync(join(root, 'told'), { recursive: true, withFileTypes: true });
  const paths = files.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  expect(paths.filter((path) => readFileSync(path).includes(mark))).toEqual([]);
  expect(JSON.parse(readFileSync(join(root, 'told', 'config.json'), 'utf8'))).toMatchObject({
    notify: 'redacted',
  });
});
