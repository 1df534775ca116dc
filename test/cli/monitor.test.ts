import { acoer, linesFile, objects } from '../helpers/cli';

/** 80 steps of 8 groups at 95%, then a drop to 60% within 40 groups, with a sixth of the initial thinking. */
const sliding = Array.from({ length: 160 }, (_, i) => {
  const fallen = Math.min(1, Math.max(0, (i - 80) / 5));
  return {
    step: i + 1,
    'accuracy/mean': 0.95 - 0.35 * fallen + (i % 2 === 0 ? 0.03 : -0.03),
    'thinking/mean': Math.max(20, 120 - 2 * i),
    'advantages/brevity': 0.5,
  };
});

test('a bare file: one line per change of state, as a run prints it; missing metrics are reported once on stderr', async () => {
  const { code, stdout, stderr } = await acoer('monitor', linesFile(sliding), '--groups', '8');
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split('\n');
  expect(lines.at(-1)).toMatch(
    /^step \d+: (healthy|warning) -> collapsed\. Collapse: sampled accuracy averages /,
  );
  expect(stdout.match(/-> collapsed/g)).toHaveLength(1);
  for (const line of lines) expect(line).toMatch(/^step \d+: (healthy|warning) -> (warning|collapsed)\. /);
  expect(stderr).toContain('No accuracy/groups_all_wrong: ');
  const notices = stderr.trimEnd().split('\n');
  expect(new Set(notices).size).toBe(notices.length);
});

test('--json prints each change as an object; --set changes the conditions', async () => {
  const file = linesFile(sliding);
  const { stdout } = await acoer('monitor', file, '--groups', '8', '--json');
  const changes = objects<{ step: number; from: string; to: string; reason: string }>(stdout);
  expect(changes.at(-1)).toMatchObject({ to: 'collapsed' });
  const strict = ['monitor.collapseAccuracyDrop=0.5', 'monitor.warningAccuracyDrop=null'];
  const calm = await acoer('monitor', file, '--groups', '8', ...strict.flatMap((set) => ['--set', set]));
  expect({ code: calm.code, stdout: calm.stdout }).toEqual({ code: 0, stdout: '' });
});

test('constant accuracy is healthy, even when every answer is correct', async () => {
  const steady = sliding.map((line) => ({ ...line, 'accuracy/mean': 1 }));
  const { stdout, stderr } = await acoer('monitor', linesFile(steady), '--groups', '1');
  expect(stdout).toBe('');
  expect(stderr).toContain('Healthy throughout all 160 lines.');
});

test.each([
  [['--groups', '8'], 'nowhere.jsonl', 'Cannot read nowhere.jsonl: no such file'],
  [[], linesFile(sliding), 'give their number with --groups N'],
  [['--groups', '8', '--set', 'monitor.collapseSigma=3'], linesFile(sliding), 'collapseSigma'],
  [['--groups', '8'], linesFile(['{"step": 1}', 'no JSON', '{"step": 2}']), '2'],
])('%j is rejected in one sentence', async (flags, file, words) => {
  const { code, stdout, stderr } = await acoer('monitor', file, ...flags);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr.trimEnd().split('\n').at(-1)).toContain(words);
});

/** As TRL logs them (names: test/fixtures/grpo/trl-metrics.json), every ten steps, with an evaluation and the summary. */
const trlLog = (accuracyName: string): Record<string, number>[] => [
  ...sliding.flatMap((line, i): Record<string, number>[] => [
    ...(i % 40 === 39 ? [{ eval_loss: 0.1, 'eval_rewards/accuracy_reward/mean': 0.1, step: line.step }] : []),
    {
      loss: 0.01,
      reward: 1.2,
      [accuracyName]: line['accuracy/mean'],
      'completions/mean_length': line['thinking/mean'] + 10,
      step: line.step,
      epoch: i / 100,
    },
  ]),
  { train_runtime: 12.5, train_loss: 0.01, step: 160 },
];

test.each(['rewards/accuracy_reward/mean', 'rewards/my_accuracy/mean', 'train/rewards/accuracy_reward/mean'])(
  "TRL's log is judged by %s and the length of completions, and says so",
  async (name) => {
    const { code, stdout, stderr } = await acoer('monitor', linesFile(trlLog(name)), '--groups', '8');
    expect(code).toBe(0);
    expect(stdout).toMatch(/-> collapsed\. Collapse: sampled accuracy averages /);
    const plain = name.replace('train/', '');
    expect(stderr).toContain(`${plain} is taken as accuracy.`);
    expect(stderr).toContain(
      'No thinking/mean: completions/mean_length, which counts the answers too, stands in for it.',
    );
  },
);

test("transformers' trainer_state.json is read", async () => {
  const file = linesFile([{ epoch: 1, log_history: trlLog('rewards/accuracy_reward/mean') }]);
  const { code, stdout } = await acoer('monitor', file, '--groups', '8');
  expect({ code, collapsed: stdout.includes('-> collapsed.') }).toEqual({ code: 0, collapsed: true });
});

test('names may be given, and lines that are steps apart count as so many batches', async () => {
  const log = sliding.map((line, i) => ({
    acc: line['accuracy/mean'],
    think: line['thinking/mean'],
    step: 10 * (i + 1),
  }));
  const words = ['--groups', '1', '--accuracy', 'acc', '--thinking', 'think'];
  const { code, stdout, stderr } = await acoer('monitor', linesFile(log), ...words);
  expect(code).toBe(0);
  expect(stdout).toMatch(/-> collapsed\./);
  expect(stderr).toContain(
    'acc is taken as accuracy.\nthink is taken as thinking.\nLines are 10 steps apart',
  );
});

test.each([
  [
    ['accuracy/mean'],
    'Judged by accuracy only, thinking is not in it: nothing found throughout all 160 lines.',
  ],
  [
    ['thinking/mean'],
    'Judged by thinking only, accuracy is not in it: nothing found throughout all 160 lines.',
  ],
])('a file with %j alone is not called healthy', async (names, sentence) => {
  const part = sliding.map((line) => ({
    step: line.step,
    [names[0]!]: names[0] === 'accuracy/mean' ? 0.9 : 120,
  }));
  const { code, stderr } = await acoer('monitor', linesFile(part), '--groups', '8');
  expect(code).toBe(0);
  expect(stderr).toContain(sentence);
  expect(stderr).not.toContain('Healthy');
});

const steady = (line: Record<string, number>) =>
  Array.from({ length: 40 }, (_, i) => ({ step: i + 1, ...line }));

test.each<[string, object[], string[], RegExp]>([
  ['no metric', Array.from({ length: 40 }, () => ({ problem: '1+1', answer: '2' })), [], /has neither accuracy nor thinking: nothing can be judged; it has no numbers\. Name what they are with --accuracy NAME and --thinking NAME\.$/],
  ['other metrics', steady({ reward: 1, 'critic/score/mean': 0.5 }), [], /has neither accuracy nor thinking: .*; it has reward, critic\/score\/mean\. /],
  ['too few lines', sliding.slice(0, 2), [], /has 16 groups \(prompts\) so far, and nothing is judged before 80 \(monitor\.spanGroups\)\.$/],
  ['a name that is not there', steady({ reward: 1 }), ['--accuracy', 'acc'], /has no acc \(--accuracy\); it has reward\.$/],
  ['two accuracies', steady({ 'rewards/a_accuracy/mean': 1, 'rewards/b_accuracy/mean': 1 }), [], /has rewards\/a_accuracy\/mean and rewards\/b_accuracy\/mean: name one of them with --accuracy NAME\.$/],
  ['a reward as accuracy', steady({ reward: 1.5, 'thinking/mean': 9 }), ['--accuracy', 'reward'], /has reward = 1\.5 in step 1, which is no share of right answers/],
  ['an empty file', [], [], /has neither accuracy nor thinking/],
])('%s cannot be judged: exit code 2', async (_, lines, words, sentence) => {
  const { code, stdout, stderr } = await acoer('monitor', linesFile(lines), '--groups', '8', ...words);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr.trimEnd().split('\n').at(-1)).toMatch(sentence);
  expect(stderr).not.toContain('Healthy');
}); // prettier-ignore

test('a metric that is only in some lines is named', async () => {
  const some = sliding.map((line, i) => (i % 2 === 0 ? line : { step: line.step, 'thinking/mean': 50 }));
  const { stderr } = await acoer('monitor', linesFile(some), '--groups', '8');
  expect(stderr).toContain('accuracy/mean is in 80 of 160 lines.');
});
