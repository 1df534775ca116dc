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
