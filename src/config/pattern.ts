/** Regular expressions and files of code in settings. */

/** Whether a setting that takes names or files means a file of code. */
export const isJavaScriptFile = (value: string): boolean => /\.[cm]?js$/i.test(value);

/** `.` also matches a line end, as in the patterns of the field. @param flags besides `s` and `u` @throws SyntaxError */
export const compilePattern = (pattern: string, flags = ''): RegExp => new RegExp(pattern, `su${flags}`);

/** What is wrong with a pattern, to follow its setting's name; null if it is valid. */
export function patternProblem(pattern: string): string | null {
  try {
    compilePattern(pattern);
    return null;
  } catch (error) {
    const why = (error as Error).message.replace(/^Invalid regular expression: /, '').slice(-80);
    return `must be a regular expression of JavaScript (${why})`;
  }
}
