import type { ChatMessage } from '../../src/base/types';
import { loadTokenizer, type Tokenizer } from '../../src/tokenizer';
import { packed } from '../helpers/fixtures';
import { realJson, realModel, realTensors } from '../helpers/real-model';

interface Chat {
  messages: ChatMessage[];
  addGenerationPrompt: boolean;
  text: string;
  ids: number[];
  decoded: string;
}

describe("the tokenizer against transformers'", () => {
  let tokenizer: Tokenizer;
  beforeAll(async () => {
    tokenizer = await loadTokenizer(realModel());
  });

  test('200 conversations: rendered, encoded and decoded', () => {
    const chats = realJson<Chat[]>('chats.json');
    expect(chats).toHaveLength(200);
    const ours = chats.map(({ messages, addGenerationPrompt, ids, ...rest }) => {
      const text = tokenizer.renderChat(messages, { enableThinking: true, addGenerationPrompt });
      const decoded = tokenizer.decode(ids);
      return { messages, addGenerationPrompt, ...rest, text, ids: [...tokenizer.encode(text)], decoded };
    });
    expect(ours).toEqual(chats);
  });

  test('prose, code, mathematics and other scripts', () => {
    const { texts } = realJson<{ texts: string[] }>('texts.json');
    const { ids, offsets } = packed(realTensors('logprobs.safetensors'));
    expect(ids.length).toBeGreaterThan(2000);
    texts.forEach((text, i) => {
      expect([...tokenizer.encode(text)]).toEqual([...ids.subarray(offsets[i], offsets[i + 1])]);
      expect(tokenizer.decode(tokenizer.encode(text))).toBe(text);
    });
  });
});
