/** A character tokenizer and a small dataset for the fake engine. */
import type { Dataset } from '../../src/data';
import type { Tokenizer } from '../../src/tokenizer';

export const FAKE_IDS = {
  pad: 0,
  eos: 1,
  openThink: 2,
  closeThink: 3,
  boxed: 4,
  openBrace: 5,
  closeBrace: 6,
  digit: 10,
  letter: 20,
} as const;

const SPECIAL: Record<number, string> = {
  [FAKE_IDS.openThink]: '<think>',
  [FAKE_IDS.closeThink]: '</think>',
  [FAKE_IDS.boxed]: '\\boxed',
  [FAKE_IDS.openBrace]: '{',
  [FAKE_IDS.closeBrace]: '}',
};

function textOf(id: number): string {
  if (id in SPECIAL) return SPECIAL[id]!;
  if (id >= FAKE_IDS.letter) return String.fromCharCode(97 + id - FAKE_IDS.letter);
  return id >= FAKE_IDS.digit ? String(id - FAKE_IDS.digit) : '';
}

function idOf(character: string): number {
  return /\d/.test(character)
    ? FAKE_IDS.digit + Number(character)
    : FAKE_IDS.letter + (character.charCodeAt(0) % 26);
}

export const fakeTokenizer: Tokenizer = {
  encode: (text) => Int32Array.from([...text], idOf),
  decode: (ids) => Array.from(ids, textOf).join(''),
  renderChat: (messages) => messages.map((message) => message.content).join('\n'),
  thinkOpenId: FAKE_IDS.openThink,
  thinkCloseId: FAKE_IDS.closeThink,
  eosIds: [FAKE_IDS.eos],
  padId: FAKE_IDS.pad,
  vocabSize: 46,
};

/**
 * Problems whose answer is the one digit in them; every fourth has a longer text. `end` makes them distinct.
 */
export function fakeDataset(size: number, end = ''): Dataset {
  return {
    name: 'fake',
    size,
    get: (index) => {
      const digit = String(index % 10);
      const question = `${index % 4 === 0 ? 'a longer prompt about ' : 'say '}${digit}${end}`;
      return { id: String(index), question, gold: digit, level: String(1 + (index % 2)) };
    },
  };
}

/** Problems to evaluate on, none of which is in `fakeDataset`. */
export const fakeEvaluation = (size: number): Dataset => fakeDataset(size, '?');
