/** How answers are found and compared: options and their presets. */

export interface ParseOptions {
  /** Reject what LaTeX reads differently or not at all: `\frac12`, `\sqrt3`, `sqrt(2)`, `2^(3)`. */
  strictLatex: boolean;
}

export type ExtractionTarget =
  /** Formulas in $...$, \[...\], \(...\) and boxes. */
  | {
      type: 'latex';
      /** Also formulas that do not follow the word "answer". */
      tryExtractWithoutAnchor: boolean;
      /** Priority of boxes: 0 first, -1 never; 50 is after "the final answer is". */
      boxedMatchPriority: number;
    }
  /** Numbers and arithmetic in plain text. */
  | { type: 'expr'; tryExtractWithoutAnchor: boolean }
  /** One of the given strings, as in multiple choice. */
  | { type: 'string'; strings: readonly string[]; tryExtractWithoutAnchor: boolean; lowercase: boolean };

export type PresetName = 'math-verify' | 'trl';

export interface VerifyOptions {
  /** `math-verify` (default): math_verify's own defaults. `trl`: as TRL's accuracy reward calls it. */
  preset?: PresetName;
  /** Decimal places both sides are rounded to when one is a decimal. Default 6. */
  floatRounding?: number;
  /** Significant digits that numeric comparison relies on. Default 15. */
  numericPrecision?: number;
  /** false: variables are matched by position. Default true. */
  strict?: boolean;
  /** Accept a predicted inequality for a reference interval. Default by preset. */
  allowSetRelationComp?: boolean;
  /**
   * `boxed`: only a complete box counts. `last-box`: the last box of the whole text, thinking included, else
   * the last `<answer>`, as in the authors' released code. A list says what to look for, in text without a
   * box too.
   */
  extraction?: 'boxed' | 'last-box' | readonly ExtractionTarget[];
  /** `any_match` tries the next match when the best one does not parse. Default by preset. */
  extractionMode?: 'any_match' | 'first_match';
  /** `no_fallback`: an answer that does not parse is not compared as a string. Default `first_match`. */
  fallbackMode?: 'no_fallback' | 'first_match';
  /** A number at most this far from the reference equals it. Default 0. */
  tolerance?: number;
  /** Count repeated list items separately. Default false: repeats are ignored. */
  countRepeats?: boolean;
  /**
   * What a text has whose thinking never closes: `none`, no answer; `searched`, the one found in all of it,
   * as in the paper's protocol. Default `none`. With `last-box` it makes no difference.
   */
  openThinking?: 'none' | 'searched';
  /** The prompt opened `<think>`, so the text begins inside thinking. Default false. */
  thinkOpened?: boolean;
  /** Reject `\frac12`, `\sqrt3`, `sqrt(2)` in the completion. Default by preset. */
  strictLatex?: boolean;
}

export interface ResolvedOptions extends Required<Omit<VerifyOptions, 'preset' | 'strictLatex'>> {
  /** How the completion's answer is parsed; the reference is always parsed leniently. */
  parse: ParseOptions;
}

const LATEX: ExtractionTarget = { type: 'latex', tryExtractWithoutAnchor: true, boxedMatchPriority: 0 };
const EXPR: ExtractionTarget = { type: 'expr', tryExtractWithoutAnchor: true };

const COMMON = {
  floatRounding: 6,
  numericPrecision: 15,
  strict: true,
  allowSetRelationComp: true,
  fallbackMode: 'first_match',
  tolerance: 0,
  countRepeats: false,
  openThinking: 'none',
  thinkOpened: false,
} as const;

export const PRESETS: Readonly<Record<PresetName, ResolvedOptions>> = {
  'math-verify': {
    ...COMMON,
    extraction: [LATEX, EXPR],
    extractionMode: 'any_match',
    parse: { strictLatex: false },
  },
  trl: {
    ...COMMON,
    allowSetRelationComp: false,
    extraction: [{ ...LATEX, tryExtractWithoutAnchor: false }],
    extractionMode: 'first_match',
    parse: { strictLatex: true },
  },
};

export function resolveOptions(options: VerifyOptions): ResolvedOptions {
  const { preset = 'math-verify', strictLatex, ...given } = options;
  const base = PRESETS[preset];
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...base, ...set, parse: { strictLatex: strictLatex ?? base.parse.strictLatex } };
}
