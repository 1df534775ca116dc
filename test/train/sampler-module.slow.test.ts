/** The setting `sampler`: a file with parameters, what is refused, and what a resumed run says about it. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { readConfigFile } from '../../src/config';
import { train, type SamplerMaker, type TrainEvent, type TrainSettings } from '../../src/train';
import { acoer } from '../helpers/cli';
import { fakeParts, fakeRun, metricsOf, removeFakeRuns } from '../helpers/fake-run';
import { asCall, type Given } from '../helpers/given';

const root = mkdtempSync(join(tmpdir(), 'acoer-sampler-'));
const stateHome = process.env.XDG_STATE_HOME;
beforeEach(() => (process.env.XDG_STATE_HOME = mkdtempSync(join(root, 'state-'))));
afterAll(() => {
  removeFakeRuns();
  rmSync(root, { recursive: true, force: true });
  if (stateHome === undefined) delete process.env.XDG_STATE_HOME;
  else process.env.XDG_STATE_HOME = stateHome;
});

let files = 0;
function file(text: string): string {
  const path = join(root, `sampler-${files++}.mjs`);
  writeFileSync(path, text);
  return path;
}

/** Samples with the engine and notes how often, and with which parameters. */
const noting = (log: string) =>
  file(`import { appendFileSync } from 'node:fs';
    export default ({ engineSampler, policy, tokenizer, params }) => ({
      follow: (version) => engineSampler.follow(version),
      sample: (prompts, settings, onCompletion) => {
        appendFileSync(${JSON.stringify(log)}, JSON.stringify({ params, prompts: prompts.length, parts: [typeof policy.save, typeof tokenizer.decode] }) + '\\n');
        return engineSampler.sample(prompts, settings, onCompletion);
      },
    });`);

const linesOf = (log: string) =>
  readFileSync(log, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
const configOf = (out: string) => JSON.parse(readFileSync(join(out, 'config.json'), 'utf8')) as TrainSettings;

const short = (more: Given) => fakeRun({ maxSteps: 3, evalProblems: 0, ...more });
const engineOwn: SamplerMaker = ({ engineSampler }) => engineSampler;

/** A run that is left after its first step, and the warnings of one that goes on with it. */
async function goOn(given: ReturnType<typeof short>, change: () => Given = () => ({})): Promise<string[]> {
  const first = await train(...asCall(given));
  await first.next();
  await first.return();
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => void (event.type === 'warning' && warnings.push(event.message));
  const resumed = await train(...asCall({ ...change(), resume: given.out, ...fakeParts(), onEvent }));
  await resumed.result();
  return warnings;
}

test('a file samples the run with its parameters, and gives the numbers of the engine', async () => {
  const plain = short({});
  await (await train(...asCall(plain))).result();
  const log = join(root, 'log');
  const name = noting(log);
  const given = short({ sampler: { name, params: { url: 'http://x' } } });
  await (await train(...asCall(given))).result();
  const lines = linesOf(log);
  expect(lines).toHaveLength(3);
  expect(lines[0]).toEqual({
    params: { url: 'http://x' },
    prompts: 8,
    parts: ['function', 'function'],
  });
  expect(metricsOf(given.out)).toEqual(metricsOf(plain.out));
  expect(configOf(given.out).sampler).toEqual({ name, params: { url: 'http://x' } });
  expect(configOf(plain.out).sampler).toBe('engine');
});

test('acoer train takes it', async () => {
  const log = join(root, 'cli');
  const words = ['--max-steps', '1', '--set', 'evalProblems=0', '--set', 'evalSampledProblems=0'];
  const sampler = ['--set', `sampler.name=${noting(log)}`, '--set', 'sampler.params.url=x'];
  const { code, stderr } = await acoer('train', ...words, ...sampler, '--out', join(root, 'cli-run'));
  expect({ code, stderr }).toMatchObject({ code: 0 });
  expect(linesOf(log)).toEqual([expect.objectContaining({ params: { url: 'x' } })]);
});

test('paths in a configuration file are relative to it', () => {
  const path = join(root, 'run.yaml');
  writeFileSync(path, 'sampler: mine.mjs\n');
  expect(readConfigFile(path).sampler).toBe(join(root, 'mine.mjs'));
  writeFileSync(path, 'sampler: { name: mine.mjs, params: { a: 1 } }\n');
  expect(readConfigFile(path).sampler).toEqual({ name: join(root, 'mine.mjs'), params: { a: 1 } });
  writeFileSync(path, 'sampler: engine\n');
  expect(readConfigFile(path).sampler).toBe('engine');
});

test.each<[string, () => TrainSettings['sampler'], RegExp]>([
  ['an unknown name', () => 'engin', /sampler: there is no sampler "engin"; did you mean `engine`\?/],
  ['a far one', () => 'vllm', /there is no sampler "vllm"; it is engine, a JavaScript file or \{type: vllm, servers: \[URL, \.\.\.\]\}/],
  ['a parameter of the engine', () => ({ name: 'engine', params: { a: 1 } }), /sampler\.params\.a: unknown/],
  ['an unknown key', () => ({ name: 'engine', param: {} }) as never, /sampler\.param: unknown setting; did you mean `params`/],
  ['a number', () => 5 as never, /sampler: must be engine, a file, \{name, params\} or \{type: vllm, servers\}, not 5/],
  ['no such file', () => join(root, 'absent.mjs'), /Cannot use the sampler in .*absent\.mjs: no such file/],
  ['a file that throws', () => file("throw new Error('no key');"), /Cannot use the sampler in .*: no key/],
  ['a file without one', () => file('export default 5;'), /must be a function that makes a sampler/],
])('%s is refused before a folder is made', async (_, sampler, message) => {
  const failed = train(...asCall(short({ sampler: sampler() })));
  await expect(failed).rejects.toMatchObject({ code: 'BAD_CONFIG' });
  await expect(failed).rejects.toThrow(message);
}); // prettier-ignore

test('a resumed run goes on with its file, and says when it has changed', async () => {
  const log = join(root, 'resumed');
  const name = noting(log);
  const given = short({ sampler: name });
  expect(await goOn(given)).toEqual([]);
  expect(linesOf(log)).toHaveLength(3);
  const changed = short({ sampler: name });
  const warnings = await goOn(changed, () => {
    writeFileSync(name, `${readFileSync(name, 'utf8')}// changed\n`);
    return { trust: true };
  });
  expect(warnings).toEqual([
    'changed on resuming: the sampler (later numbers are no longer those of an uninterrupted run)',
  ]);
});

test('a file that only the run names needs trust', async () => {
  const given = short({ sampler: noting(join(root, 'untrusted')) });
  const elsewhere = () => {
    process.env.XDG_STATE_HOME = mkdtempSync(join(root, 'state-'));
    return {};
  };
  await expect(goOn(given, elsewhere)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(/names the sampler .*\.mjs, code that would run with your rights/) as string,
  });
  const again = train({}, { resume: given.out, trust: true, ...fakeParts() });
  expect((await (await again).result()).run.steps).toBe(3);
}); // prettier-ignore

test('a function stands in config.json by its name, and is given again or replaced', async () => {
  const given = short({ sampler: engineOwn });
  await expect(goOn(given)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: expect.stringMatching(/^The sampler function:engineOwn was a function of the training program/) as string,
  });
  expect(configOf(given.out).sampler).toBe('function:engineOwn');
  const same = short({ sampler: engineOwn });
  expect(await goOn(same, () => ({ sampler: engineOwn }))).toEqual([]);
  const replaced = short({ sampler: engineOwn });
  expect(await goOn(replaced, () => ({ sampler: 'engine' }))).toEqual([
    'changed on resuming: sampler "function:engineOwn" -> "engine" (later numbers are no longer those of an uninterrupted run)',
  ]);
}); // prettier-ignore
