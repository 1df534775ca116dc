/** What a sweep ends with: its runs compared, as one page. */
import { join } from 'node:path';
import { makeReport } from '../report';
import { writeFileAtomic } from '../run';
import { readSweep, runPath } from './folder';

/** The page, in the folder of a sweep. */
export const REPORT_FILE = 'report.html';

/**
 * Writes `report.html`, in which the runs that are done are compared: seeds of one method as one.
 * @returns its path; null: no run is done
 * @throws BAD_INPUT naming a damaged file of a run; the system's error if the page cannot be written
 */
export async function writeComparison(sweepPath: string): Promise<string | null> {
  const { name, runs } = readSweep(sweepPath);
  const done = runs.filter(({ state }) => state === 'done').map((run) => runPath(sweepPath, run));
  if (done.length === 0) return null;
  const { html } = await makeReport(done, { title: name });
  const path = join(sweepPath, REPORT_FILE);
  writeFileAtomic(path, html);
  return path;
}
