import { acoer, ended, linesFile, objects, spawnAcoer } from '../helpers/cli';
import { textModel } from '../helpers/text-model';
import { loadTokenizer } from '../../src/tokenizer';
import type { Tokenizer } from '../../src/tokenizer';

interface Line {
  index: number;
  sample: number;
  text: string;
  ids: number[];
  logprobs: number[];
  finish: string;
  thinkingTokens: number;
  thinkingClosed: boolean;
}

const model = textModel();
let tokenizer: Tokenizer;
beforeAll(async () => {
  tokenizer = await loadTokenizer(model);
});

async function generate(lines: readonly unknown[], ...flags: string[]): Promise<Line[]> {
  const { code, stdout, stderr } = await acoer('generate', '--model', model, ...flags, linesFile(lines));
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return objects<Line>(stdout);
}

const PROMPTS = [{ prompt: '1+2 mod 10?' }, { prompt: '7-3' }, { ids: [5, 6, 7] }];

describe('lines', () => {
  test('are written in (index, sample) order with every field', async () => {
    const lines = await generate(PROMPTS, '-n', '5', '--max-new-tokens', '40');
    expect(lines.map(({ index, sample }) => [index, sample])).toEqual(
      [0, 1, 2].flatMap((index) => [0, 1, 2, 3, 4].map((sample) => [index, sample])),
    );
    for (const line of lines) {
      expect(Object.keys(line)).toEqual(
        'index sample text ids logprobs finish thinkingTokens thinkingClosed'.split(' '),
      );
      expect(line.logprobs).toHaveLength(line.ids.length);
      expect(Math.max(...line.logprobs)).toBeLessThanOrEqual(0);
      expect(line.text).toBe(tokenizer.decode(line.ids, { skipSpecial: true }));
      const stopped = tokenizer.eosIds.includes(line.ids.at(-1)!);
      expect(line.finish).toBe(stopped ? 'stop' : 'length');
      if (!stopped) expect(line.ids).toHaveLength(40);
    }
    expect(new Set(lines.map((line) => line.finish))).toEqual(new Set(['stop', 'length']));
  });

  test('a sequence stops at the first stop id and nowhere else', async () => {
    const lines = await generate([PROMPTS[0]], '-n', '200', '--max-new-tokens', '100');
    for (const { ids } of lines) {
      expect(ids.slice(0, -1).some((id) => tokenizer.eosIds.includes(id))).toBe(false);
    }
  });

  test('--stop ends a completion at an additional token', async () => {
    const [digit] = tokenizer.encode('7');
    const lines = await generate([PROMPTS[0]], '-n', '50', '--stop', '7');
    expect(lines.some(({ ids }) => ids.at(-1) === digit)).toBe(true);
    for (const { ids } of lines) expect(ids.slice(0, -1)).not.toContain(digit);
  });

  test('thinking is counted between <think> and </think>', async () => {
    const { thinkOpenId: open, thinkCloseId: close } = tokenizer;
    const lines = await generate(
      [PROMPTS[0], { ids: [5, open] }, { ids: [5, open, close] }],
      '-n',
      '60',
      '--max-new-tokens',
      '200',
    );
    let closed = 0;
    for (const { index, ids, thinkingTokens, thinkingClosed } of lines) {
      const start = index === 1 ? 0 : ids.indexOf(open!) + 1;
      const end = ids.indexOf(close!, start);
      const thought = index === 1 || start > 0;
      expect(thinkingClosed).toBe(thought && end >= 0);
      expect(thinkingTokens).toBe(thought ? (end >= 0 ? end : ids.length) - start : ids.length);
      closed += Number(thinkingClosed);
    }
    expect(closed).toBeGreaterThan(5);
  });

  test('messages go through the chat template', async () => {
    const content = '3-1 mod 10?';
    const text = tokenizer.renderChat([{ role: 'user', content }], {
      enableThinking: true,
      addGenerationPrompt: true,
    });
    const [chat] = await generate([{ messages: [{ role: 'user', content }] }]);
    const [raw] = await generate([{ prompt: text }]);
    const [ids] = await generate([{ ids: Array.from(tokenizer.encode(text)) }]);
    expect(chat).toEqual(raw);
    expect(ids).toEqual(raw);
  });

  test('empty input gives empty output', async () => {
    expect(await generate([])).toEqual([]);
  });
});

describe('--prompt', () => {
  const content = '3-1 mod 10?';
  const flags = ['generate', '--model', model, '--prompt', content, '--max-new-tokens', '30'];

  test('goes through the chat template and prints the text, or the record with --json', async () => {
    const [record] = await generate([{ messages: [{ role: 'user', content }] }], '--max-new-tokens', '30');
    const { code, stdout } = await acoer(...flags);
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${record!.text.trim()}\n` });
    expect(objects<Line>((await acoer(...flags, '--json')).stdout)).toEqual([record]);
  });

  test('-n K prints each completion under a heading', async () => {
    const { stdout } = await acoer(...flags, '-n', '3');
    const headings = stdout.split('\n').filter((line) => line.startsWith('---'));
    expect(headings.map((line) => line.replace(/:.*/, ''))).toEqual([
      '--- 1 of 3',
      '--- 2 of 3',
      '--- 3 of 3',
    ]);
    expect(headings[0]).toMatch(/^--- 1 of 3: \d+ tokens, \d+ of thinking(, cut off)?$/);
  });

  test('reports on stderr that it was cut off', async () => {
    const { stderr } = await acoer(...flags.slice(0, -1), '1');
    expect(stderr).toBe('cut off after 1 tokens (--max-new-tokens 1)\n');
  });

  test.each([
    ['with a file', ['--prompt', 'x', 'lines.jsonl'], /--prompt and a file of prompts cannot be combined/],
    ['empty', ['--prompt', ' '], /--prompt: the prompt is empty/],
    [
      'too long',
      ['--prompt', '1'.repeat(5000)],
      /--prompt: the prompt has \d+ tokens, but the model has only 4096 positions/,
    ],
    ['--json without it', ['--json'], /--json is only for --prompt/],
  ])('%s exits with 2', async (_, words, sentence) => {
    const { code, stdout, stderr } = await acoer('generate', '--model', model, ...words);
    expect(stderr).toMatch(sentence);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });
});

describe('draws', () => {
  test('depend on seed, line and sample, not on neighbours or the number of samples', async () => {
    const many = await generate(PROMPTS, '-n', '7');
    const few = await generate(PROMPTS.slice(0, 2), '-n', '3');
    expect(few).toEqual(many.filter(({ index, sample }) => index < 2 && sample < 3));
    const again = await generate(PROMPTS, '-n', '7');
    expect(again).toEqual(many);
    const other = await generate(PROMPTS, '-n', '7', '--seed', '43');
    expect(other.map(({ ids }) => ids)).not.toEqual(many.map(({ ids }) => ids));
    expect(new Set(many.map(({ ids }) => ids.join())).size).toBe(many.length);
  });

  test('do not depend on the windows a large input is split into', async () => {
    const lines = Array.from({ length: 700 }, (_, n) => ({ ids: [1 + (n % 60), 3] }));
    const inOne = await generate(lines, '--max-new-tokens', '3');
    // 1,400 sequences: two windows, split after line 512.
    const inTwo = await generate(lines, '-n', '2', '--max-new-tokens', '3');
    expect(inTwo).toHaveLength(1400);
    expect(inTwo.filter(({ sample }) => sample === 0)).toEqual(inOne);
    // One line's samples split over two windows.
    const wide = await generate([lines[0]], '-n', '1100', '--max-new-tokens', '3');
    expect(wide.slice(0, 2)).toEqual(inTwo.slice(0, 2));
    expect(wide.map(({ sample }) => sample)).toEqual(Array.from({ length: 1100 }, (_, n) => n));
  });

  test('are the same with speculation', async () => {
    const plain = await generate(PROMPTS, '-n', '2');
    expect(await generate(PROMPTS, '-n', '2', '--num-speculative-tokens', '4')).toEqual(plain);
  });

  test('the log-probs equal those of `acoer score`', async () => {
    const lines = await generate(PROMPTS, '-n', '4', '--max-new-tokens', '30', '--top-k', '20');
    const prompts = PROMPTS.map((p) => ('ids' in p ? p.ids! : Array.from(tokenizer.encode(p.prompt))));
    const sequences = lines.map(({ index, ids }) => ({
      ids: [...prompts[index]!, ...ids],
      promptLength: prompts[index]!.length,
    }));
    const { stdout } = await acoer('score', '--model', model, linesFile(sequences));
    const scores = objects<{ logprobs: number[]; entropies: number[] }>(stdout);
    expect(scores).toHaveLength(lines.length);
    scores.forEach(({ logprobs, entropies }, i) => {
      expect(entropies).toHaveLength(lines[i]!.ids.length);
      logprobs.forEach((logprob, t) => expect(Math.abs(logprob - lines[i]!.logprobs[t]!)).toBeLessThan(1e-4));
    });
  });

  test('temperature 0 is greedy: all samples are the same', async () => {
    const lines = await generate([PROMPTS[0]], '-n', '3', '--temperature', '0', '--max-new-tokens', '20');
    const [first, ...others] = lines.map(({ ids }) => ids);
    expect(others).toEqual([first, first]);
  });

  test('top-k 1 is greedy too, with log-probs before the filter', async () => {
    const [greedy] = await generate([PROMPTS[0]], '--temperature', '0', '--max-new-tokens', '20');
    const [top] = await generate([PROMPTS[0]], '--top-k', '1', '--max-new-tokens', '20');
    expect(top!.ids).toEqual(greedy!.ids);
    top!.logprobs.forEach((logprob, t) => expect(logprob).toBeCloseTo(greedy!.logprobs[t]!, 6));
  });
});

describe('bad lines exit with 2 before any output', () => {
  const good = { prompt: '1+1' };
  test.each([
    ['no object', '[1]', /^acoer: line 3: not a JSON object/],
    ['no form', { text: 'x' }, /line 3: expected exactly one of "prompt", "messages" and "ids", found none/],
    ['two forms', { prompt: 'x', ids: [1] }, /found prompt and ids/],
    ['prompt is a number', { prompt: 3 }, /line 3: "prompt" must be a string/],
    ['an empty prompt', { prompt: '' }, /line 3: the prompt is empty/],
    ['no ids', { ids: [] }, /line 3: "ids" must be a non-empty list of token ids/],
    [
      'an id beyond the vocabulary',
      { ids: [1, 64] },
      /line 3: "ids"\[1\] is 64; it must be a whole number from 0 to 63/,
    ],
    ['a fractional id', { ids: [0.5] }, /"ids"\[0\] is 0.5/],
    ['an unknown role', { messages: [{ role: 'boss', content: '' }] }, /line 3: "messages"\[0\]\["role"\]/],
    ['no messages', { messages: [] }, /line 3: "messages"/],
    [
      'a prompt too long for the model',
      { ids: new Array(4096).fill(1) },
      /line 3: the prompt has 4096 tokens, but the model has only 4096 positions/,
    ],
  ] as [string, unknown, RegExp][])('%s', async (_, line, message) => {
    const { code, stdout, stderr } = await acoer(
      'generate',
      '--model',
      model,
      linesFile([good, '', line, good]),
    );
    expect(stderr).toMatch(message);
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  });

  test('a stop of several tokens', async () => {
    const flags = ['--model', model, '--stop', 'abc'];
    expect(await acoer('generate', ...flags, linesFile([good]))).toMatchObject({
      code: 2,
      stderr: 'acoer: --stop "abc" is 3 tokens in this model; it must be a single token.\n',
    });
  });

  test('a missing adapter', async () => {
    const result = await acoer('generate', '--model', model, '--adapter', '/no/such', linesFile([good]));
    expect(result).toMatchObject({ code: 2, stdout: '' });
    expect(result.stderr).toMatch(/^acoer: .*\/no\/such/);
  });
});

describe('as a process', () => {
  test('reads standard input', async () => {
    const child = spawnAcoer('generate', '--model', model, '--max-new-tokens', '5');
    const result = ended(child);
    child.stdin.end('{"prompt":"1+1"}\n{"prompt":"2+2"}');
    const { code, stdout, stderr } = await result;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(objects<Line>(stdout)).toHaveLength(2);
  });

  test('Ctrl-C: completions in flight come back as cancelled, in order, and the exit code is 130', async () => {
    const prompts = Array.from({ length: 1000 }, () => ({ prompt: '1+1' }));
    // Slow enough that the engine is still in the window when this process reads its first line.
    const slow = textModel({ hiddenSize: 256, intermediateSize: 512, numLayers: 8 });
    const child = spawnAcoer('generate', '--model', slow, '-n', '8', linesFile(prompts));
    const result = ended(child);
    child.stdout.once('data', () => child.kill('SIGINT'));
    const { code, stdout } = await result;
    expect(code).toBe(130);
    const lines = objects<Line>(stdout);
    expect(lines.length).toBeLessThan(8000);
    expect(lines.some(({ finish }) => finish === 'cancelled')).toBe(true);
    const keys = lines.map(({ index, sample }) => index * 8 + sample);
    expect(keys).toEqual([...keys].sort((a, b) => a - b));
    for (const { ids, logprobs } of lines) expect(logprobs).toHaveLength(ids.length);
  });

  // In bf16 the products are oneDNN's, whose kernels are built at first use.
  test.each(['float32', 'bfloat16'] as const)('it ends quietly when its reader leaves, %s', async (dtype) => {
    const directory = textModel({ dtype });
    const child = spawnAcoer('generate', '--model', directory, '-n', '20000', linesFile([{ prompt: '1+1' }]));
    const result = ended(child);
    child.stdout.once('data', () => child.stdout.destroy());
    const { code, stderr } = await result;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  });
});
