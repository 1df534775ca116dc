/** A tokenizer that the user's program brings: checked once, and its answers as they come. */
import { badArgument, needFunction, needMethods, needString, returned, shownValue } from '../base/border';
import { badInput } from '../base/errors';
import type { Tokenizer } from './index';

const isId = (value: unknown, vocabSize: number): boolean =>
  Number.isInteger(value) && (value as number) >= 0 && (value as number) < vocabSize;

function checkIds(
  what: string,
  { eosIds, padId, thinkOpenId, thinkCloseId, firstIds, vocabSize }: Tokenizer,
): void {
  const wanted = `a token id, from 0 to ${vocabSize - 1}`;
  const lists = { eosIds, firstIds: firstIds ?? [] };
  for (const [name, ids] of Object.entries(lists)) {
    if (!Array.isArray(ids)) throw badArgument(`${what}.${name}`, 'a list of token ids', ids);
    ids.forEach((id: unknown, i) => {
      if (!isId(id, vocabSize)) throw badArgument(`${what}.${name}[${i}]`, wanted, id);
    });
  }
  if (eosIds.length === 0) throw badArgument(`${what}.eosIds`, 'a list of at least one token id', eosIds);
  if (!isId(padId, vocabSize)) throw badArgument(`${what}.padId`, wanted, padId);
  for (const [name, id] of Object.entries({ thinkOpenId, thinkCloseId })) {
    if (id !== null && !isId(id, vocabSize)) throw badArgument(`${what}.${name}`, `${wanted}, or null`, id);
  }
}

/** Runs a method of the tokenizer's. @throws BAD_INPUT when it throws, or `check` finds a fault in its answer */
function answer<T>(call: string, work: () => T, check: (value: unknown) => string | null): T {
  const value = returned(call, work);
  const fault = check(value);
  if (fault !== null) throw badInput(`${call} ${fault}.`);
  return value;
}

const notText = (value: unknown) =>
  typeof value === 'string' ? null : `returned ${shownValue(value)}, not a string`;

/**
 * `given` with checks. `encode` may return a plain list of ids.
 * @param what the argument's name: `tokenizer`
 * @throws BAD_ARGUMENT for something that is no tokenizer
 */
export function givenTokenizer(what: string, given: unknown): Tokenizer {
  needMethods(what, given, ['encode', 'decode', 'renderChat']);
  const tokenizer = given as Tokenizer;
  const { vocabSize, thinkOpenId, thinkCloseId, eosIds, padId, eosToken, firstIds, findLost, fingerprints } =
    tokenizer;
  if (!Number.isSafeInteger(vocabSize) || vocabSize < 1) {
    throw badArgument(`${what}.vocabSize`, 'a whole number of at least 1', vocabSize);
  }
  checkIds(what, tokenizer);
  if (eosToken !== undefined) needString(`${what}.eosToken`, eosToken);
  if (findLost !== undefined) needFunction(`${what}.findLost`, findLost);
  const faultOfIds = (ids: unknown): string | null => {
    if (!Array.isArray(ids) && Object.prototype.toString.call(ids) !== '[object Int32Array]') {
      return `returned ${shownValue(ids)}, not an Int32Array`;
    }
    const list = ids as ArrayLike<unknown>;
    for (let i = 0; i < list.length; i++) {
      if (!isId(list[i], vocabSize))
        return `gave ${shownValue(list[i])} as id ${i}, and the vocabulary has ${vocabSize} tokens`;
    }
    return null;
  };
  return {
    encode(text) {
      const ids: ArrayLike<number> = answer(`${what}.encode`, () => tokenizer.encode(text), faultOfIds);
      return Array.isArray(ids) ? Int32Array.from(ids) : (ids as Int32Array);
    },
    decode: (ids, options) => answer(`${what}.decode`, () => tokenizer.decode(ids, options), notText),
    renderChat: (...chat) => answer(`${what}.renderChat`, () => tokenizer.renderChat(...chat), notText),
    ...{ vocabSize, thinkOpenId, thinkCloseId, eosIds, padId },
    ...(eosToken !== undefined && { eosToken }),
    ...(firstIds !== undefined && { firstIds }),
    ...(findLost !== undefined && { findLost: findLost.bind(tokenizer) }),
    ...(fingerprints !== undefined && { fingerprints }),
  };
}
