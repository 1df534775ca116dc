/** The rule of the format reward. */
import { compilePattern } from '../config/pattern';
import { hasFormat } from '#verify/verify';
import type { JudgedCompletion } from './types';

export interface FormatRule {
  /** It cannot take long on any text. */
  quick: boolean;
  holds(completion: JudgedCompletion): boolean;
}

/** The paper's. */
export const BOXED: FormatRule = {
  quick: true,
  holds: ({ text, thinkingClosed }) => hasFormat(text, { thinkingClosed }),
};

const THINKING: FormatRule = { quick: true, holds: ({ thinkingClosed }) => thinkingClosed };

export interface FormatSettings {
  formatRule: 'boxed' | 'thinking' | 'regex' | null;
  /** The pattern of the rule `regex`. */
  formatPattern: string | null;
}

/** null: `boxed` for the judge math, else `thinking`. */
export function formatRuleOf({ formatRule, formatPattern }: FormatSettings, judge: string): FormatRule {
  const rule = formatRule ?? (judge === 'math' ? 'boxed' : 'thinking');
  if (rule === 'boxed') return BOXED;
  if (rule === 'thinking') return THINKING;
  const pattern = compilePattern(formatPattern ?? '');
  return { quick: false, holds: ({ text }) => pattern.test(text) };
}
