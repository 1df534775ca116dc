/** Rows of every form, and one sentence for each that cannot be learnt from. */
import { BadRow } from '../../src/data/rows';
import { SftRows } from '../../src/sft/rows';

const USER = { role: 'user', content: 'Hi' };
const SAID = { role: 'assistant', content: 'Ho' };
const read = (row: Record<string, unknown>, columns = {}) => new SftRows(columns).read(row);

test('the forms of a row', () => {
  expect(read({ messages: [USER, SAID] })).toEqual({ form: 'chat', prompt: [USER], completion: 'Ho' });
  expect(read({ prompt: [USER], completion: [SAID] })).toEqual(read({ messages: [USER, SAID] }));
  expect(read({ prompt: 'Hi', completion: 'Ho' })).toEqual({ form: 'text', prompt: 'Hi', completion: 'Ho' });
  const problem = { form: 'problem', prompt: 'Hi', completion: 'Ho' };
  expect(read({ problem: 'Hi', solution: 'Ho' })).toEqual(problem);
  expect(read({ question: 'Hi', solution: 'Ho', answer: '1' })).toEqual(problem);
});

test('messages come before the other forms, unless columns are named', () => {
  const row = { messages: [USER, SAID], problem: 'P', solution: 'S', text: { q: 'Q' }, answer: 'A' };
  expect(read(row).form).toBe('chat');
  expect(read(row, { solution: 'answer' })).toEqual({ form: 'problem', prompt: 'P', completion: 'A' });
  expect(read(row, { prompt: 'text.q', completion: 'answer' })).toMatchObject({ form: 'text', prompt: 'Q' });
});

test('thinking in a field of its own is part of the completion', () => {
  const messages = [USER, { ...SAID, reasoning_content: 'Hm.' }];
  expect(read({ messages }).completion).toBe('<think>\nHm.\n</think>\n\nHo');
});

test.each<[Record<string, unknown>, RegExp]>([
  [{ text: 'Hi' }, /^has no values in messages, nor in prompt and completion, nor in problem or .* and solution; its columns are text\. Set the right ones with columns\.messages, /],
  [{ prompt: 'Hi' }, /^has no values in messages, nor/],
  [{ messages: 'Hi' }, /^must have a list of messages in messages$/],
  [{ messages: [] }, /^must have a list of messages in messages$/],
  [{ messages: [USER] }, /^must end with the assistant's message in messages, not the user's$/],
  [{ messages: [SAID] }, /^has no message before the assistant's in messages$/],
  [{ messages: [USER, { role: 'tool', content: '' }] }, /^has the role "tool" in message 2 of messages; roles are system, user and assistant$/],
  [{ messages: [USER, { role: 'assistant', content: [{ type: 'text' }] }] }, /^must have text as the content of message 2 of messages$/],
  [{ messages: [USER, { ...SAID, tool_calls: [{}] }] }, /^calls a tool in message 2 of messages, which is not supported$/],
  [{ messages: [USER, 'Ho'] }, /^has something else than \{role, content\} as message 2 of messages$/],
  [{ messages: [USER, { ...SAID, content: ' \n' }] }, /^has nothing to learn in messages$/],
  [{ prompt: 'Hi', completion: [SAID] }, /^must have text in both prompt and completion, or messages in both$/],
  [{ prompt: [USER], completion: [SAID, SAID] }, /^must have one message in completion, not 2$/],
  [{ prompt: [USER], completion: [USER] }, /^must end with the assistant's message in completion, not the user's$/],
  [{ prompt: 'Hi', completion: '' }, /^has nothing to learn in completion$/],
  [{ problem: ' ', solution: 'Ho' }, /^has an empty problem$/],
  [{ problem: 'Hi', solution: {} }, /^must have text in solution$/],
])('%j is refused', (row, sentence) => {
  const refusal = (() => {
    try {
      return read(row);
    } catch (error) {
      return error;
    }
  })();
  expect(refusal).toBeInstanceOf(BadRow);
  expect((refusal as BadRow).message).toMatch(sentence);
}); // prettier-ignore

test('a file without the columns of any form is refused before its rows are read', () => {
  expect(() => new SftRows().choose('data.parquet', ['text', 'prompt'])).toThrow(
    expect.objectContaining({
      code: 'BAD_INPUT',
      message: expect.stringMatching(
        /^data\.parquet has no values in messages, .*its columns are text, prompt\./,
      ) as string,
    }) as Error,
  );
  const columns = ['id', 'question', 'solution'];
  expect(new SftRows().choose('data.parquet', columns)).toEqual(columns);
});
