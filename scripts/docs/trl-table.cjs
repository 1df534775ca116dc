/** The lists in docs/from-trl.md: TRL's settings, ours, and the differences. */

const START = '<!-- made by npm run docs -->';
const END = '<!-- end -->';

const bracketed = (value) => (value === '' || value === undefined ? '' : ` (${value})`);
/** Long values are useless in a list. */
const short = (value) => (JSON.stringify(value).length > 24 ? '' : JSON.stringify(value));

/** Names without a counterpart by reason, in the order of the reasons. */
function absences(found) {
  const names = new Map();
  for (const [name, reason] of found) names.set(reason, [...(names.get(reason) ?? []), `\`${name}\``]);
  return [...names].map(([reason, list]) => `- ${reason}: ${list.sort().join(', ')}`).join('\n');
}

exports.trlTable = ({ TRL_SETTINGS, TRL_ABSENT, describeConfig }, trl, page) => {
  const defaults = new Map(describeConfig().map(({ name, default: value }) => [name, short(value)]));
  const ours = (name) => `\`${name}\`${bracketed(defaults.get(name))}`;
  const items = Object.entries(TRL_SETTINGS).map(([name, { ours: names, note }]) => {
    const known = trl.settings[name];
    const theirs = known === undefined ? `\`${name}\` (older TRL)` : `\`${name}\`${bracketed(known.default)}`;
    return `- ${theirs}: ${names.map(ours).join(', ') || 'none'}${note === undefined ? '' : `; ${note}`}`;
  });
  const [before, after] = [page.indexOf(START) + START.length, page.indexOf(END)];
  return `${page.slice(0, before)}\n\n${items.join('\n')}\n\n${absences(TRL_ABSENT)}\n\n${page.slice(after)}`;
};
