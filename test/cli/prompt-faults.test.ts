/** What the model will not see of its prompts is said, and a data set is shown as training will use it. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  answerProblems,
  createEngine,
  loadDataset,
  loadTokenizer,
  report,
  resolveModel,
  train,
} from '../../src';
import type { TrainEvent } from '../../src';
import { acoer } from '../helpers/cli';

let folder: string;
let file: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'acoer-faults-'));
  file = join(folder, 'mine.jsonl');
  const row = (i: number) => ({
    prompt: [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: `${i % 10}+${i % 7} mod 10?` },
    ],
    answer: String((i + (i % 7)) % 10),
  });
  writeFileSync(file, Array.from({ length: 40 }, (_, i) => `${JSON.stringify(row(i))}\n`).join(''));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const LOST = (count: number) =>
  `${count} characters of the prompts are not in this tokenizer, the first is "S": the model does not see them.`;

test.each([
  ['--model tiny', ['--model', 'tiny']],
  ['--set model=tiny', ['--set', 'model=tiny']],
  ['--set preset=tiny', ['--set', 'preset=tiny']],
])('acoer data FILE %s shows the prompt of training, system message included', async (_, words) => {
  const { code, stdout } = await acoer('data', file, ...words, '--rows', '1', '--json');
  expect(code).toBe(0);
  const { examples, notices } = JSON.parse(stdout) as { examples: { prompt: string }[]; notices: string[] };
  expect(examples[0]!.prompt).toBe(
    '<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n0+0 mod 10?<|im_end|>\n<|im_start|>assistant\n',
  );
  expect(notices).toHaveLength(1);
});

test('without a tokenizer the messages of a chat are named', async () => {
  const { stdout } = await acoer('data', file, '--model', 'tiny', '--rows', '1', '--no-tokens');
  expect(stdout).toContain('system: be brief\nuser: 0+0 mod 10?');
});

test('acoer data looks at the data before it fetches a tokenizer', async () => {
  const { code, stderr } = await acoer('data', 'nope');
  expect(code).toBe(2);
  expect(stderr).toMatch(/^acoer: There is no data set "nope"; known names are tiny,/);
});

test('acoer data, eval and generate say which characters are lost', async () => {
  const data = await acoer('data', file, '--model', 'tiny', '--set', 'promptTemplate=Solve {problem}');
  expect(data.stdout).toContain(LOST(40));
  const words = ['--problems', '5', '--prompt-template', 'Solve {problem}', '--max-new-tokens', '8'];
  const out = join(folder, 'eval');
  const { stderr } = await acoer('eval', '--model', 'tiny', '--benchmark', file, ...words, '--out', out);
  expect(stderr).toContain(`acoer: mine: ${LOST(5)}\n`);
  const one = await acoer('generate', '--model', 'tiny', '--prompt', 'SOS', '--max-new-tokens', '4');
  expect(one.stderr).toContain(`acoer: ${LOST(3)}\n`);
  const lines = join(folder, 'prompts.jsonl');
  writeFileSync(
    lines,
    '{"prompt": "Sum"}\n{"messages": [{"role": "user", "content": "So"}]}\n{"ids": [1]}\n',
  );
  const many = await acoer('generate', lines, '--model', 'tiny', '--max-new-tokens', '4');
  expect(many.stderr).toContain(`acoer: ${LOST(2)}\n`);
});

test('training says it once, and gives the model what the system says', async () => {
  const warnings: string[] = [];
  const onEvent = (event: TrainEvent) => {
    if (event.type === 'warning') warnings.push(event.message);
  };
  const run = await train(
    {
      model: 'tiny',
      dataset: file,
      promptTemplate: 'Solve {problem}',
      maxSteps: 1,
      promptsPerStep: 2,
      maxCompletionLength: 16,
      evalMaxNewTokens: 16,
      evalProblems: 8,
      evalSampledProblems: 0,
    },
    { out: join(folder, 'run'), onEvent },
  );
  await run.result();
  expect(warnings.filter((message) => message.includes('tokenizer'))).toEqual([LOST(40)]);
  const { stdout } = await acoer('show', join(folder, 'run'), '--json');
  const [line] = stdout.trim().split('\n');
  expect((JSON.parse(line!) as { prompt: string }).prompt).toMatch(
    /^<\|im_start\|>system\nbe brief<\|im_end\|>\n<\|im_start\|>user\nSolve \d/,
  );
});

test('the library asks the embedded model as acoer eval does, and warns of another prompt', async () => {
  const { directory } = await resolveModel('tiny');
  const engine = await createEngine({ device: 'cpu' });
  const warnings: string[] = [];
  const options = {
    model: await engine.loadModel(directory),
    policy: null,
    tokenizer: await loadTokenizer(directory),
    dataset: await loadDataset({ name: 'tiny', split: 'eval', seed: 42 }),
    n: 20,
    sampling: 'greedy',
    maxNewTokens: 256,
    onWarning: (message: string) => void warnings.push(message),
  } as const;
  const rows = await answerProblems(options);
  expect(warnings).toEqual([]);
  const words = ['--benchmark', 'tiny', '--problems', '20', '--out', join(folder, 'library'), '--json'];
  const { stdout } = await acoer('eval', '--model', 'tiny', ...words);
  const evaluated = JSON.parse(stdout) as { accuracy: number; thinkingTokens: number };
  const { accuracy, thinkingTokens } = report(rows);
  expect({ accuracy, thinkingTokens }).toEqual({
    accuracy: evaluated.accuracy,
    thinkingTokens: evaluated.thinkingTokens,
  });
  expect(accuracy).toBe(1);
  await answerProblems({ ...options, n: 2, maxNewTokens: 4, promptTemplate: 'Solve {problem}' });
  expect(warnings).toEqual([LOST(2)]);
  await engine.dispose();
});
