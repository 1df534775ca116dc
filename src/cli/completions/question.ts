/** The question within a prompt as stored: what the run's template and the chat template put around it is cut. */

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

/** @param template the run's `promptTemplate` */
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
