/** The lists of settings in docs/sft.md. */

const START = '<!-- made by npm run docs -->';
const END = '<!-- end -->';

exports.sftTable = ({ describeSft }, page) => {
  const [before, after] = [page.indexOf(START) + START.length, page.indexOf(END)];
  const lists = describeSft().replaceAll(/^## /gm, '### ');
  return `${page.slice(0, before)}\n\n${lists}\n${page.slice(after)}`;
};
