/** Rewards from files, in their own threads. Runs the compiled program: a thread needs JavaScript. */
import { existsSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { readConfigFile } from '../../src/config';
import { errorCode } from '../../src/base/errors';
import type * as RewardModule from '../../src/life/modules/reward-module';
import type * as Library from '../../src/index';
import type { BoundReward } from '../../src/rewards';
import { readMetrics } from '../../src/run';
import { builtCli, ROOT } from '../helpers/cli';
import { FakeEngine } from '../helpers/fake-engine';
import { fakeDataset, fakeTokenizer } from '../helpers/fake-tokenizer';
import { group, rollout } from '../rewards/rollouts';
import { asCall, type Given } from '../helpers/given';

const dist = join(dirname(builtCli()), '..');
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { train } = require(join(dist, 'index.js')) as typeof Library;
// eslint-disable-next-line @typescript-eslint/no-require-imports
const { openRewardModule } = require(
  join(dist, 'life', 'modules', 'reward-module.js'),
) as typeof RewardModule;

const modules = join(ROOT, 'test', 'fixtures', 'reward-modules');
const file = (name: string) => join(modules, name);
const root = mkdtempSync(join(tmpdir(), 'acoer-reward-module-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));

const opened: BoundReward[] = [];
afterEach(async () => {
  for (const reward of opened.splice(0)) await reward.close!();
});

async function open(
  name: string,
  params = {},
  timeoutMs = 5000,
  loadTimeoutMs?: number,
): Promise<BoundReward> {
  const setup = { name: 'mine', path: file(name), params, maxLength: 100 };
  const reward = await openRewardModule(setup, timeoutMs, loadTimeoutMs);
  opened.push(reward);
  return reward;
}

/** A reward of the given CommonJS source, in which `port` is the thread's parentPort. */
async function openSource(source: string): Promise<BoundReward> {
  const path = join(root, `reward-${opened.length}-${Date.now()}.cjs`);
  writeFileSync(path, `const port = require('node:worker_threads').parentPort;\n${source}`);
  const reward = await openRewardModule({ name: 'mine', path, params: {}, maxLength: 100 }, 5000);
  opened.push(reward);
  return reward;
}

const samples = [true, false, true].map((correct, sample) => ({ ...rollout(correct, 10), sample }));
const own = group(...samples);
const view = (state: unknown) => ({ step: 0, maxLength: 100, group: own, batch: [own], state });
const scores = (reward: BoundReward, state: unknown = null) =>
  Promise.allSettled(own.rollouts.map(async (one) => (await reward.score(one, view(state))).value));
const shown = async (reward: BoundReward) =>
  (await scores(reward)).map((one) => (one.status === 'fulfilled' ? one.value : String(one.reason)));

test.each(['plain.cjs', 'compiled.cjs'])('%s is a function of (rollout, group)', async (name) => {
  expect(await shown(await open(name))).toEqual([1, 0, 1]);
});

test('an object has parameters, state and metrics', async () => {
  const reward = await open('counting.mjs', { weight: 3 });
  const first = reward.initialState({ maxLength: 100 });
  expect(first).toEqual({ batches: 0 });
  const second = await reward.observe(first, view(first));
  expect(second).toEqual({ batches: 1 });
  expect(reward.metrics(second)).toEqual({ 'counting/batches': 1 });
  expect(reward.snapshot!(second)).toEqual({ batches: 1 });
  const values = (await scores(reward, second)).map((one) => one.status === 'fulfilled' && one.value);
  expect(values).toEqual([3.1, 0.11, 3.12]);
});

test('what it notes of a completion comes with its value', async () => {
  const reward = await openSource(
    "module.exports = ({ sample }) => ({ value: 1, columns: { sample }, metrics: { 'mine/sample': sample }, more: () => 1 })",
  );
  expect(await reward.score(samples[2]!, view(null))).toEqual({
    value: 1,
    columns: { sample: 2 },
    metrics: { 'mine/sample': 2 },
  });
});

test('an answer that never comes is reported after the timeout, naming its sample', async () => {
  const reward = await open('silent.cjs', {}, 200);
  expect((await shown(reward))[1]).toBe('Error: no answer within 200 ms');
  // The thread is gone: later calls fail at once instead of waiting.
  await expect(reward.score(samples[0]!, view(null))).rejects.toThrow('no answer within 200 ms');
});

test('a batch that cannot be copied to the thread fails every call, instead of judging the last one', async () => {
  const reward = await open('plain.cjs');
  await shown(reward);
  const batch = [{ ...own, uncopyable: () => undefined }];
  for (let call = 0; call < 2; call++) {
    const scored = (async () => reward.score(samples[0]!, { ...view(null), batch }))();
    await expect(scored).rejects.toThrow('could not be cloned');
  }
});

test('errors outside any promise, and an exit, fail the pending calls', async () => {
  expect(await shown(await open('crashes.cjs'))).toContain('Error: out of the blue');
  expect(await shown(await open('exits.cjs'))).toContain('Error: its thread ended');
});

test.each(['null', '7', "'text'", '[]', '{}', '{ type: 3 }', "{ type: 'done' }", "{ type: 'done', id: 99 }", '{ a: 1n }'])(
  'a module that posts %s to the port fails its calls',
  async (message) => {
    const reward = await openSource(`module.exports = () => { port.postMessage(${message}); return new Promise(() => {}); }`);
    expect(await shown(reward)).toContainEqual(
      expect.stringMatching(/^Error: it posted .* to parentPort, over which acoer talks to it; remove that call/),
    );
  },
); // prettier-ignore

test('a module that posts while it is loaded is refused as bad configuration', async () => {
  const failing = openSource('port.postMessage(null); module.exports = () => 1');
  await expect(failing).rejects.toThrow(/^Cannot use the reward "mine" in .*: it posted null to parentPort/);
  expect(await failing.catch(errorCode)).toBe('BAD_CONFIG');
});

test.each<[string, object, number, RegExp]>([
  ['absent.mjs', {}, 60_000, /"mine" in .*absent\.mjs: no such file/],
  ['no-reward.mjs', {}, 60_000, /"mine".*score or scoreGroup/],
  ['counting.mjs', { wieght: 2 }, 60_000, /"mine".*no parameter wieght/],
  ['endless-load.cjs', {}, 1000, /did not load within 1000 ms/],
])('%s with %j is refused as bad configuration', async (name, params, loadTimeoutMs, message) => {
  const failing = open(name, params, 5000, loadTimeoutMs);
  await expect(failing).rejects.toThrow(message);
  expect(await failing.catch(errorCode)).toBe('BAD_CONFIG');
});

let runs = 0;
function options(module: string, more: Given = {}): Given & { out: string } {
  return {
    maxSteps: 8,
    maxCompletionLength: 40,
    learningRate: 100,
    evalProblems: 0,
    evalSampledProblems: 0,
    saveSteps: 2,
    rewardModules: { mine: file(module) },
    reward: 'mine',
    engine: new FakeEngine(),
    tokenizer: fakeTokenizer,
    trainData: fakeDataset(30),
    out: join(root, `run-${runs++}`),
    ...more,
  };
}

/** The last line of metrics.jsonl without its times. */
function lastMetrics(folder: string) {
  const line = readMetrics(join(folder, 'metrics.jsonl')).at(-1)!;
  return Object.entries(line).filter(([name]) => !/^(step_time$|time\/|memory\/)/.test(name));
}

describe('a run', () => {
  test.each<[string, RegExp]>([
    ['loops.cjs', /Reward "mine" failed on sample \d of prompt \d+ .*: no answer within 3000 ms/],
    ['nan.cjs', /Reward "mine" gave NaN for sample 2 of prompt 0/],
    ['posts.cjs', /Reward "mine" failed on sample \d of prompt \d+ .*: it posted null to parentPort/],
    ['short.cjs', /Reward "mine" failed on sample 3 of prompt 0 .*returned 3 rewards for the 4 completions/],
  ])('%s stops it, naming reward and sample', async (module, message) => {
    // Long enough for a busy machine to answer, if an answer comes at all.
    const given = options(module, { rewardTimeoutMs: 3000 });
    const failing = (await train(...asCall(given))).result();
    await expect(failing).rejects.toThrow(message);
    expect(await failing.catch(errorCode)).toBe('REWARD_FAILED');
    expect(existsSync(join(given.out, 'summary.json'))).toBe(false);
    // These fail after 100 calls, which is after three whole batches of 32.
    const saved = readdirSync(join(given.out, 'checkpoints'));
    expect(saved).toEqual(['loops.cjs', 'posts.cjs'].includes(module) ? ['step-000002', 'step-000003'] : []);
  });

  test('that is interrupted resumes with the state of the module', async () => {
    const whole = options('counting.mjs');
    await (await train(...asCall(whole))).result();
    const broken = options('counting.mjs');
    const run = await train(...asCall(broken));
    for await (const step of run) if (step.index === 5) break;
    const { rewardStates } = (
      JSON.parse(readFileSync(join(broken.out, 'checkpoints', 'step-000005', 'state.json'), 'utf8')) as {
        loop: { rewardStates: unknown };
      }
    ).loop;
    expect(rewardStates).toEqual({ mine: { batches: 5 } });
    const { engine, tokenizer, trainData } = options('counting.mjs');
    await (await train({}, { resume: broken.out, engine, tokenizer, trainData })).result();
    expect(lastMetrics(broken.out)).toEqual(lastMetrics(whole.out));
    expect(lastMetrics(whole.out)).toContainEqual(['counting/batches', 8]);
  });

  test('refuses a module under the name of a built-in reward', async () => {
    const given = options('plain.cjs', { rewardModules: { acoer: file('plain.cjs') }, reward: 'acoer' });
    await expect(train(...asCall(given))).rejects.toThrow(/rewardModules\.acoer: this name is already taken/);
  });
});

test('paths of modules are relative to the configuration file', () => {
  const path = join(root, 'run.yaml');
  writeFileSync(path, 'reward: mine\nrewardModules:\n  mine: rewards/mine.mjs\n');
  expect(readConfigFile(path).rewardModules).toEqual({ mine: join(root, 'rewards', 'mine.mjs') });
});
