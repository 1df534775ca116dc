/** The list in docs/rewards.md, from the rewards' own descriptions. */

/** What every reward with a length has. */
const SHARED = ['lengthOf', 'lengthUnit', 'maxLength'];

const parametersOf = ({ defaults }) =>
  Object.entries(defaults)
    .filter(([name]) => !SHARED.includes(name))
    .map(([name, value]) => `\`${name}\` ${value}`)
    .join(', ');

function item(reward) {
  const { name, summary, formula, source, defaults } = reward;
  const parameters = parametersOf(reward);
  const length = defaults.lengthOf === undefined ? '' : `l: ${defaults.lengthOf}`;
  const details = [length, parameters, `source: ${source}`].filter((text) => text !== '');
  return `- \`${name}\`: ${summary}\n  - \`${formula}\`\n  - ${details.join('; ')}`;
}

const BEGIN = '<!-- made by npm run docs -->';
const END = '<!-- end -->';

/** @param {string} page docs/rewards.md as it is */
exports.rewardsPage = ({ BUILT_IN }, page) => {
  const [head, rest] = page.split(BEGIN);
  const tail = rest.split(END)[1];
  return `${head}${BEGIN}\n\n${BUILT_IN.map(item).join('\n')}\n\n${END}${tail}`;
};
