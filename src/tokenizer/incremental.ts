import type { Tokenizer } from './index';

/** What a decoder writes for bytes that are no character, or not yet. */
const INCOMPLETE = '\uFFFD';

const withoutIncomplete = (text: string): number => {
  let end = text.length;
  while (end > 0 && text[end - 1] === INCOMPLETE) end--;
  return end;
};

/** Ids that read as nothing, such as special tokens, of those seen so far. */
const SILENT = new WeakMap<object, Map<number, boolean>>();

/**
 * Text of token ids as they come: what it gives adds up to what `decode` gives of all of them, wherever it is asked. A
 * token may have a part of a character, whose bytes then wait for the rest; and what a token reads as depends on the
 * one before, which is therefore decoded again.
 */
export class IncrementalText {
  /** The last ids, beginning with one before which all text is out. */
  private ids: number[] = [];
  /** Length of their text that is out. */
  private out = 0;
  private readonly silent: Map<number, boolean>;

  constructor(
    private readonly tokenizer: Pick<Tokenizer, 'decode'>,
    private readonly skipSpecial: boolean,
  ) {
    const known = (skipSpecial ? SILENT.get(tokenizer) : undefined) ?? new Map<number, boolean>();
    if (skipSpecial) SILENT.set(tokenizer, known);
    this.silent = known;
  }

  /** The text that these ids make certain. */
  add(ids: readonly number[]): string {
    const heard = ids.filter((id) => !this.isSilent(id));
    if (heard.length === 0) return '';
    this.ids.push(...heard);
    const text = this.decode(this.ids);
    const certain = withoutIncomplete(text);
    const added = text.slice(this.out, certain);
    this.out = certain > this.out ? certain : this.out;
    if (certain < text.length || added === '') return added;
    this.ids = this.ids.slice(-1);
    this.out = this.decode(this.ids).length;
    return added;
  }

  /** What is left: bytes that never became a character. */
  end(): string {
    const rest = this.decode(this.ids).slice(this.out);
    this.ids = [];
    this.out = 0;
    return rest;
  }

  private isSilent(id: number): boolean {
    let silent = this.silent.get(id);
    if (silent === undefined) this.silent.set(id, (silent = this.decode([id]) === ''));
    return silent;
  }

  private decode(ids: readonly number[]): string {
    return this.tokenizer.decode(ids, { skipSpecial: this.skipSpecial });
  }
}
