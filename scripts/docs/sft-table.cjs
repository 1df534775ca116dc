/** The tables of settings in docs/sft.md. */

const START = '<!-- made by npm run docs -->';
const END = '<!-- end -->';

exports.sftTable = ({ describeSft }, page) => {
  const [before, after] = [page.indexOf(START) + START.length, page.indexOf(END)];
  const tables = describeSft().replaceAll(/^## /gm, '### ');
  return `${page.slice(0, before)}\n\n${tables}\n${page.slice(after)}`;
};
