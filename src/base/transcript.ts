/** Takes a stored prompt and its completion apart. Part of the pages, so it imports nothing. */

const PLACE = '{problem}';
/** Tokens that end or begin a turn in the chat templates in use: <|im_end|>, <｜User｜>, [/INST], ... */
const TURN = /<\|[^|<>]*\|>|<｜[^｜<>]*｜>|<(?:start|end)_of_turn>|\[\/?INST\]/;

/** The text of the user's turn: the part that follows the role, or else the longest one. */
function userTurn(prompt: string): string {
  const parts = prompt.split(TURN);
  const user = parts.filter((part) => /^user\n/.test(part)).at(-1);
  if (user !== undefined) return user.slice('user\n'.length);
  return parts.reduce((longest, part) => (part.length > longest.length ? part : longest), '');
}

/**
 * The question within a prompt: what the run's template and the chat template put around it is cut.
 *
 * @param template the run's `promptTemplate`
 */
export function questionOf(prompt: string, template: string): string {
  const place = template.indexOf(PLACE);
  const [before, after] = [template.slice(0, place), template.slice(place + PLACE.length)];
  const turn = userTurn(prompt);
  // Chat templates trim the user's text.
  const start = turn.indexOf(before.trimStart());
  const rest = start < 0 ? turn : turn.slice(start + before.trimStart().length);
  const end = after.trim() === '' ? -1 : rest.lastIndexOf(after.trimEnd());
  return (end < 0 ? rest : rest.slice(0, end)).trim();
}

/** Whether the prompt ended inside `<think>`, so that the completion begins with thinking. */
export const opensThinking = (prompt: string): boolean => /<think>\s*$/.test(prompt);

export interface CompletionParts {
  before: string;
  /** The first thinking block with its tags; all the rest if it is not closed; null: there is none. */
  thinking: string | null;
  answer: string;
}

export function partsOf(text: string, thinkOpened: boolean): CompletionParts {
  const start = thinkOpened ? 0 : text.indexOf('<think>');
  if (start < 0) return { before: '', thinking: null, answer: text };
  const close = text.indexOf('</think>', start);
  const end = close < 0 ? text.length : close + '</think>'.length;
  return { before: text.slice(0, start), thinking: text.slice(start, end), answer: text.slice(end) };
}
