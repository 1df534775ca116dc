/** `acoer doctor --ranks`: how fast the processes of a run exchange data, and which of them are slow. */
import { abortable } from '../base/abortable';
import { badUsage } from '../base/errors';
import { printableJson } from '../base/printable';
import { measureRanks, slowRanks } from '../ranks/measure';
import type { RankProcess } from '../ranks/process';
import { amongRanks } from './among-ranks';
import { interruptible } from './interrupt';
import { endWithParent } from '../base/parent';
import { printText } from './output';
import { formatTable } from './table';

/** As `--json` prints it. */
interface RankReport {
  exchangeMs: number;
  sumBytes: number;
  sumMs: number;
  ranks: { rank: number; host: string; pid: number; sendMs: number; slow: boolean }[];
}

/** @returns null on another rank than 0. @throws BAD_CONFIG for a process that is alone */
async function rankReport(process: RankProcess | null, signal: AbortSignal): Promise<RankReport | null> {
  if (process === null)
    throw badUsage('--ranks measures several processes: give --nproc N, or start them by a launcher.');
  const { group, members } = process.joined;
  const speeds = await abortable(measureRanks(group), signal);
  if (!process.leads) return null;
  const slow = slowRanks(speeds);
  const { bytes: sumBytes, exchangeMs, sumMs, sendMs } = speeds;
  const ranks = members.map((member, i) => ({ ...member, sendMs: sendMs[i]!, slow: slow[i]! }));
  return { exchangeMs, sumBytes, sumMs, ranks };
}

const rate = (bytes: number, ms: number): string => `${(bytes / 1e6 / ms).toFixed(2)} GB/s`;

function rankReportText({ exchangeMs, sumBytes, sumMs, ranks }: RankReport): string {
  const megabytes = `${sumBytes / 1e6} MB`;
  const hosts = new Set(ranks.map(({ host }) => host)).size;
  return [
    `processes      ${ranks.length} on ${hosts} host${hosts === 1 ? '' : 's'}`,
    `exchange       ${exchangeMs.toFixed(2)} ms`,
    `sum of ${megabytes}   ${sumMs.toFixed(0)} ms, ${rate(sumBytes, sumMs)}`,
    '',
    formatTable(
      [
        ['rank', 'host', 'pid', `${megabytes} to all others`],
        ...ranks.map(({ rank, host, pid, sendMs, slow }) => [
          String(rank),
          host,
          String(pid),
          `${sendMs.toFixed(0)} ms, ${rate(sumBytes, sendMs)}${slow ? ', slow' : ''}`,
        ]),
      ],
      2,
    ),
  ].join('\n');
}

export async function printRankReport({ json = false }: { json?: boolean }): Promise<void> {
  endWithParent();
  await interruptible(async (signal) => {
    const report = await amongRanks({}, 'measuring', signal, ({ process }, ended) =>
      rankReport(process, ended),
    );
    if (report !== null) printText(json ? printableJson(report, 2) : rankReportText(report));
  });
}
