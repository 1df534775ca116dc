import { readFileSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import {
  loadTokenizer,
  measureCompletion,
  measureThinking,
  renderPrompt,
  type Tokenizer,
} from '../../src/tokenizer';
import type { ChatMessage, Problem } from '../../src/base/types';

const fixture = JSON.parse(readFileSync(resolve(__dirname, '../fixtures/tiny-tokenizer.json'), 'utf8')) as {
  rows: { text: string; ids: number[]; decoded: string; decodedNoSpecial: string }[];
  chats: {
    messages: ChatMessage[];
    enableThinking: boolean;
    addGenerationPrompt: boolean;
    text: string;
  }[];
};

const tiny = resolve(__dirname, '../../assets/tiny');
const problem: Problem = { id: '0', question: '6-3-4 mod 10?', gold: '9', level: '1' };
let tokenizer: Tokenizer;

beforeAll(async () => {
  tokenizer = await loadTokenizer(tiny);
});

test('ids and texts equal the reference library', () => {
  for (const { text, ids, decoded, decodedNoSpecial } of fixture.rows) {
    expect([...tokenizer.encode(text)]).toEqual(ids);
    expect(tokenizer.decode(ids)).toBe(decoded);
    expect(tokenizer.decode(Int32Array.from(ids), { skipSpecial: true })).toBe(decodedNoSpecial);
  }
});

test('the chat template renders as in the reference library', () => {
  for (const { messages, enableThinking, addGenerationPrompt, text } of fixture.chats) {
    const options = { enableThinking, addGenerationPrompt };
    expect(tokenizer.renderChat(messages, options)).toBe(text);
  }
});

test('special ids', () => {
  const { thinkOpenId, thinkCloseId, eosIds, padId, vocabSize } = tokenizer;
  expect({ thinkOpenId, thinkCloseId, eosIds, padId, vocabSize }).toEqual({
    thinkOpenId: 57,
    thinkCloseId: 58,
    eosIds: [56, 54],
    padId: 54,
    vocabSize: 62,
  });
});

test('a problem becomes a prompt', () => {
  const prompt = renderPrompt(tokenizer, problem, 3, { promptTemplate: '{problem}' });
  expect(prompt.text).toBe('<|im_start|>user\n6-3-4 mod 10?<|im_end|>\n<|im_start|>assistant\n');
  expect([...prompt.ids]).toEqual([...tokenizer.encode(prompt.text)]);
  expect(prompt).toMatchObject({ problem, index: 3, thinkOpened: false });
  expect(renderPrompt(tokenizer, problem, 0).text).toContain('olve the following math problem.');
});

test('a template without {problem} is rejected', () => {
  expect(() => renderPrompt(tokenizer, problem, 0, { promptTemplate: 'solve it' })).toThrow(
    expect.objectContaining({ code: 'BAD_CONFIG', message: expect.stringContaining('{problem}') }),
  );
});

describe('other models', () => {
  let directory: string;
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'acoer-tokenizer-'));
  });
  afterEach(() => rm(directory, { recursive: true }));

  test('a template that opens <think> counts as opened; a question that quotes it does not', async () => {
    const opened = {
      ...tokenizer,
      renderChat: (messages: readonly ChatMessage[], options: { addGenerationPrompt: boolean }) =>
        `${messages[0]!.content}\n${options.addGenerationPrompt ? '<think>\n' : ''}`,
    };
    expect(renderPrompt(opened, problem, 0, { promptTemplate: '{problem}' }).thinkOpened).toBe(true);
    const quoting = { ...problem, question: 'what is <think>?' };
    expect(renderPrompt(tokenizer, quoting, 0, { promptTemplate: '{problem}' }).thinkOpened).toBe(false);
  });

  // DeepSeek-R1-Distill's template ends a prompt with `<think>` and leaves earlier thinking out of the history.
  test('a completion of a template that opens <think> starts inside the thinking', async () => {
    await cp(tiny, directory, { recursive: true });
    const path = join(directory, 'tokenizer_config.json');
    const config = JSON.parse(await readFile(path, 'utf8')) as object;
    const template =
      "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'].split('</think>')[-1] }}<|im_end|>\n{% endfor %}" +
      '{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}';
    await writeFile(path, JSON.stringify({ ...config, chat_template: template }));
    const r1 = await loadTokenizer(directory);
    const prompt = renderPrompt(r1, problem, 0, { promptTemplate: '{problem}' });
    expect(prompt.text).toBe('<|im_start|>user\n6-3-4 mod 10?<|im_end|>\n<|im_start|>assistant\n<think>\n');
    expect(prompt.thinkOpened).toBe(true);
    const thinking = r1.encode('6-3=3 3-4=9');
    const answer = r1.encode('\\boxed{9}');
    const ids = Int32Array.of(...thinking, r1.thinkCloseId!, ...answer);
    expect(measureCompletion(ids, r1, prompt.thinkOpened)).toEqual({
      thinkingTokens: thinking.length,
      thinkingClosed: true,
      laterThinkingTokens: 0,
      answerTokens: answer.length,
    });
    // Cut off before it closed, and a model that opens it once more.
    expect(measureThinking(thinking, r1, prompt.thinkOpened)).toEqual({
      thinkingTokens: thinking.length,
      thinkingClosed: false,
    });
    expect(measureThinking(Int32Array.of(r1.thinkOpenId!, ...ids), r1, prompt.thinkOpened)).toEqual({
      thinkingTokens: thinking.length + 1,
      thinkingClosed: true,
    });
    const history = [{ role: 'assistant' as const, content: '<think>6-3=3</think>9' }];
    expect(r1.renderChat(history, { enableThinking: true, addGenerationPrompt: false })).toBe(
      '<|im_start|>assistant\n9<|im_end|>\n',
    );
  });

  test.each([2 ** 31 - 1, 1 << 22, -1, 1.5])('an added token of id %p is refused', async (id) => {
    await cp(tiny, directory, { recursive: true });
    const path = join(directory, 'tokenizer.json');
    const file = JSON.parse(await readFile(path, 'utf8')) as { added_tokens: object[] };
    file.added_tokens.push({ ...file.added_tokens[0], id, content: 'QQ' });
    await writeFile(path, JSON.stringify(file));
    await expect(loadTokenizer(directory)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: `Cannot use ${path}: it has ${id} where a token id belongs (0 to 4194303)`,
    });
  });

  // They take minutes without the limit, not forever: a hang would hide the failure.
  const endless = { type: 'Replace', pattern: { Regex: '(a+)+$' }, content: '' };
  const cubic = {
    type: 'WordPiece',
    unk_token: 'a',
    continuing_subword_prefix: '',
    max_input_chars_per_word: 1e9,
  };
  const backtracked = `${'a'.repeat(33)}b`;
  test.each([
    ['a normalizer', 'encode', backtracked, { normalizer: endless }],
    [
      'a splitter',
      'encode',
      backtracked,
      { pre_tokenizer: { type: 'Split', pattern: endless.pattern, behavior: 'Isolated', invert: false } },
    ],
    ['a model', 'encode', 'a'.repeat(4_000), { model: { ...cubic, vocab: { a: 0 } } }],
    [
      'a decoder',
      'decode',
      backtracked,
      { decoder: { type: 'Sequence', decoders: [{ type: 'Fuse' }, endless] } },
    ],
  ] as const)('%s that takes too long to %s is stopped', async (_, direction, text, rules) => {
    await cp(tiny, directory, { recursive: true });
    const path = join(directory, 'tokenizer.json');
    const file = JSON.parse(await readFile(path, 'utf8')) as object;
    await writeFile(path, JSON.stringify({ ...file, ...rules }));
    const hostile = await loadTokenizer(directory);
    const ids = tokenizer.encode(text);
    const work = () => (direction === 'encode' ? hostile.encode(text) : hostile.decode(ids));
    expect(work).toThrow(/its rules take more than \d+ ms for \d+ characters or tokens$/);
  });

  test('missing and broken files are named', async () => {
    await expect(loadTokenizer(directory)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringContaining('No tokenizer.json'),
    });
    await writeFile(join(directory, 'tokenizer.json'), '{');
    await expect(loadTokenizer(directory)).rejects.toMatchObject({
      code: 'BAD_INPUT',
      message: expect.stringContaining('tokenizer.json is not valid JSON'),
    });
  });
});
