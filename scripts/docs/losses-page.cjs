/** The list in docs/losses.md, from the losses' own descriptions. */

const parametersOf = ({ parameters }) =>
  Object.entries(parameters)
    .map(([name, type]) => `\n  - \`${name}\` ${type.parse(undefined)}: ${type.description}`)
    .join('');

const list = (losses) =>
  losses
    .map((loss) => `- \`${loss.name}\`: ${loss.summary}\n\n  ${loss.formula}\n${parametersOf(loss)}`)
    .join('\n');

const BEGIN = '<!-- made by npm run docs -->';
const END = '<!-- end -->';

/** @param {string} page the current docs/losses.md */
exports.lossesPage = ({ listLosses }, page) => {
  const [head, rest] = page.split(BEGIN);
  const tail = rest.split(END)[1];
  return `${head}${BEGIN}\n\n${list(listLosses())}\n\n${END}${tail}`;
};
