/** The text of an answer while its tokens come: cut at stop strings, and thinking apart from what it answers. */
import { thinkTags } from '#verify/boxed';
import { maximum } from '../base/statistics';
import { IncrementalText, type Tokenizer } from '../tokenizer';

export interface AnswerParts {
  /** Outside thinking. */
  text: string;
  thinking: string;
}

/** A run of text; with `opens`, a tag of thinking. */
interface Run {
  text: string;
  opens?: boolean;
}

/** Length of the longest end of `text` that one of `words` begins with, without being the whole word. */
function begunAtEnd(text: string, words: readonly string[]): number {
  const longest = Math.min(text.length, maximum([0, ...words.map((word) => word.length - 1)]));
  for (let length = longest; length > 0; length--) {
    const end = text.slice(text.length - length);
    if (words.some((word) => word.length > length && word.startsWith(end))) return length;
  }
  return 0;
}

/** Lets text through up to the first stop string, and holds back what may begin one. */
class StopFilter {
  private held: Run[] = [];
  /** The string that ended the answer. */
  found: string | null = null;

  constructor(private readonly stops: readonly string[]) {}

  add(run: Run): Run[] {
    if (this.found !== null) return [];
    if (this.stops.length === 0) return [run];
    this.held.push(run);
    const text = this.held.map((one) => one.text).join('');
    const places = this.stops.map((stop) => [text.indexOf(stop), stop] as const).filter(([at]) => at >= 0);
    const [first] = places.sort(([a, first], [b, second]) => a - b || second.length - first.length);
    if (first === undefined) return this.release(text.length - begunAtEnd(text, this.stops));
    this.found = first[1];
    const before = this.release(first[0], true);
    this.held = [];
    return before;
  }

  end(): Run[] {
    const rest = this.found === null ? this.held : [];
    this.held = [];
    return rest;
  }

  /** The first `length` characters of what is held; a tag only whole. */
  private release(length: number, tornTags = false): Run[] {
    const released: Run[] = [];
    let left = length;
    while (this.held.length > 0) {
      const run = this.held[0]!;
      const whole = run.text.length <= left;
      if (!whole && (left === 0 || run.opens !== undefined)) {
        if (tornTags && left > 0) released.push({ text: run.text.slice(0, left) });
        break;
      }
      const taken = whole ? run : { text: run.text.slice(0, left) };
      if (whole) this.held.shift();
      else this.held[0] = { text: run.text.slice(left) };
      released.push(taken);
      left -= taken.text.length;
    }
    return released;
  }
}

const TAGS = ['<think>', '</think>'];
const MOST_BLANKS = 1_000;

/** Finds tags of thinking that are ordinary text, for vocabularies without tokens for them. */
class WrittenTags {
  private held = '';
  /** The last character that is out and is not blank, and the blanks after it: what a tag stands after decides. */
  private before = '';

  add(text: string): Run[] {
    const all = this.held + text;
    const kept = begunAtEnd(all, TAGS);
    this.held = all.slice(all.length - kept);
    return this.split(all.slice(0, all.length - kept));
  }

  end(): Run[] {
    const rest = this.held;
    this.held = '';
    return this.split(rest);
  }

  private split(text: string): Run[] {
    const seen = this.before + text;
    const runs: Run[] = [];
    let at = this.before.length;
    for (const { opens, start, end } of thinkTags(seen)) {
      if (start < at) continue;
      runs.push({ text: seen.slice(at, start) }, { text: seen.slice(start, end), opens });
      at = end;
    }
    runs.push({ text: seen.slice(at) });
    this.before = (/[^ \t][ \t]*$/.exec(seen)?.[0] ?? seen).slice(-MOST_BLANKS);
    return runs.filter((run) => run.text !== '' || run.opens !== undefined);
  }
}

/** One of the two parts, without line ends around its blocks. */
class Part {
  /** Line ends that the next character brings with it. */
  private lineEnds = '';
  private some = false;
  private inBlock = false;

  add(text: string): string {
    const body = this.inBlock ? text : text.replace(/^[\r\n]+/, '');
    if (body === '') return '';
    [this.some, this.inBlock] = [true, true];
    const all = this.lineEnds + body;
    const shown = all.replace(/[\r\n]+$/, '');
    this.lineEnds = all.slice(shown.length);
    return shown;
  }

  /** What comes next is another block. */
  close(): void {
    this.lineEnds = this.some ? '\n\n' : '';
    this.inBlock = false;
  }
}

export interface AnswerTextOptions {
  /** The prompt ends inside thinking. */
  thinkOpened?: boolean;
  /** true (default): thinking apart, without its tags; false: all is `text`, as it is. */
  split?: boolean;
  /** Texts that end the answer, and are no part of it. */
  stops?: readonly string[];
  /** Default true. */
  skipSpecial?: boolean;
}

/** What it gives adds up to the same text, however the ids are cut into calls of `add`. */
export class AnswerText {
  private readonly incremental: IncrementalText;
  private readonly filter: StopFilter;
  private readonly written: WrittenTags | null;
  private readonly parts = { text: new Part(), thinking: new Part() };
  private readonly split: boolean;
  private thinks: boolean;

  constructor(
    private readonly tokenizer: Pick<Tokenizer, 'decode' | 'thinkOpenId' | 'thinkCloseId'>,
    { thinkOpened = false, split = true, stops = [], skipSpecial = true }: AnswerTextOptions = {},
  ) {
    this.incremental = new IncrementalText(tokenizer, skipSpecial);
    this.filter = new StopFilter(stops);
    this.split = split;
    this.thinks = split && thinkOpened;
    const hasTags = tokenizer.thinkOpenId !== null && tokenizer.thinkCloseId !== null;
    this.written = split && !hasTags ? new WrittenTags() : null;
  }

  /** The stop string that ended the answer; null: none so far. */
  get stop(): string | null {
    return this.filter.found;
  }

  /** @param ids without the token that ends the answer */
  add(ids: Iterable<number>): AnswerParts {
    const made: AnswerParts = { text: '', thinking: '' };
    let plain: number[] = [];
    const tellPlain = () => {
      if (plain.length > 0) this.take([{ text: this.incremental.add(plain) }], made);
      plain = [];
    };
    for (const id of ids) {
      if (!this.isTag(id)) {
        plain.push(id);
        continue;
      }
      tellPlain();
      const text = this.tokenizer.decode([id], { skipSpecial: true });
      this.take([{ text: this.incremental.end() }, { text, opens: id === this.tokenizer.thinkOpenId }], made);
    }
    tellPlain();
    return made;
  }

  end(): AnswerParts {
    const made: AnswerParts = { text: '', thinking: '' };
    this.take([{ text: this.incremental.end() }], made);
    this.tell(this.filter.end(), made);
    if (this.written !== null) this.route(this.written.end(), made);
    return made;
  }

  private isTag(id: number): boolean {
    const { thinkOpenId, thinkCloseId } = this.tokenizer;
    return this.split && this.written === null && (id === thinkOpenId || id === thinkCloseId);
  }

  private take(runs: readonly Run[], made: AnswerParts): void {
    for (const run of runs) this.tell(this.filter.add(run), made);
  }

  private tell(runs: readonly Run[], made: AnswerParts): void {
    if (this.written === null) return this.route(runs, made);
    for (const { text } of runs) this.route(this.written.add(text), made);
  }

  /** As thinking is counted (tokenizer/thinking.ts): a tag that opens or closes nothing is text. */
  private route(runs: readonly Run[], made: AnswerParts): void {
    for (const { text, opens } of runs) {
      if (!this.split) made.text += text;
      else if (opens !== undefined && opens !== this.thinks) {
        this.parts[this.thinks ? 'thinking' : 'text'].close();
        this.thinks = opens;
      } else {
        const part = this.thinks ? 'thinking' : 'text';
        made[part] += this.parts[part].add(text);
      }
    }
  }
}
