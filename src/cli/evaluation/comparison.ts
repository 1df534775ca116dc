/** A paired comparison as text. */
import type { PairedFigure, PairedTokens } from '../../eval';
import { formatTable } from '../table';
import { points } from '../view/format';
import type { ComparedFiles } from './files';
import { percentOf, tokensOf } from './tables';

/** `p = 0.031`, `p < 0.001`. */
const pValue = (p: number): string => (p < 0.001 ? 'p < 0.001' : `p = ${p.toFixed(3)}`);

const tokens = (value: number): string => (value > 0 ? `+${tokensOf(value)}` : tokensOf(value));

function figureRow(
  name: string,
  figure: PairedFigure,
  value: (x: number) => string,
  difference: (x: number) => string,
): string[] {
  if (Number.isNaN(figure.difference)) return [name, '-', '-', '-', '-', '-'];
  const { low, high } = figure.interval;
  const range = `${difference(low)} to ${difference(high)}`;
  return [name, value(figure.a), value(figure.b), difference(figure.difference), range, pValue(figure.p)];
}

function changeLine(name: string, { change, changeInterval: { low, high } }: PairedTokens): string[] {
  if (Number.isNaN(change)) return [];
  return [`${name}: ${points(change)}% (95% ${points(low)} to ${points(high)})`];
}

export function comparisonText(compared: ComparedFiles): string {
  const { benchmark, files, pairs, unpairedA, unpairedB, mcnemar } = compared;
  const left =
    unpairedA + unpairedB > 0 ? `, unpaired and left out: ${unpairedA} of A, ${unpairedB} of B` : '';
  const test =
    mcnemar === null
      ? 'several answers per problem: no McNemar test; see the interval of the accuracy'
      : `only A correct ${mcnemar.onlyA}, only B correct ${mcnemar.onlyB}, exact McNemar ${pValue(mcnemar.p)}`;
  return [
    `${benchmark === null ? '' : `${benchmark}: `}${pairs} problems${left}`,
    `A ${files[0]}`,
    `B ${files[1]}`,
    '',
    formatTable([
      ['', 'A', 'B', 'B - A', '95%', 'paired bootstrap'],
      figureRow('accuracy', compared.accuracy, percentOf, points),
      figureRow('thinking tokens', compared.thinkingTokens, tokensOf, tokens),
      figureRow('total tokens', compared.totalTokens, tokensOf, tokens),
      figureRow('accuracy per 1K tokens', compared.accuracyPer1kTokens, tokensOf, tokens),
    ]),
    '',
    test,
    ...changeLine('thinking tokens', compared.thinkingTokens),
    ...changeLine('total tokens', compared.totalTokens),
    '',
  ].join('\n');
}
