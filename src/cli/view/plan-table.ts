/** A table of plans as text. */
import { gigabytes } from '../../base/text';
import { marginWords, type PlanTable, type PlanTableCell } from '../../plan';
import { formatTable } from '../table';

const hoursText = (hours: number): string => `${hours < 100 ? hours.toPrecision(3) : hours.toFixed(0)} h`;

function cellText({ margin, fullSlots, hours }: PlanTableCell): string {
  const words = marginWords(margin);
  if (hours === null) return words;
  const slots = fullSlots === null ? [] : [`${fullSlots} slots`];
  return [words, ...slots, hoursText(hours)].join(', ');
}

export function planTableReport({ rows }: PlanTable, kvCacheDtype: string): string {
  const header = rows[0]!.cells.map(({ device, totalBytes }) => `${device}, ${gigabytes(totalBytes, 1)}`);
  const lines = rows.map(({ model, quantization, dtype, cells }, i) => [
    rows[i - 1]?.model === model ? '' : model.replace(/^.*\//, ''),
    quantization ?? dtype,
    ...cells.map(cellText),
  ]);
  return [
    formatTable([['model', 'linear layers', ...header], ...lines], 2 + header.length),
    '',
    `slots: sequences that decode together with room for each at full length, KV cache in ${kvCacheDtype === 'auto' ? "the model's type" : kvCacheDtype}.`,
    'h: GPU-hours expected for the whole run with its evaluations. tight: less than 15% to spare; close other programs.',
    'No card has confirmed these figures: bytes are counted, rates are from data sheets, what is reached of them is assumed.',
  ].join('\n');
}
