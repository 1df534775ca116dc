/** One thread reads one file after the other, but never one after a file that failed or was left early. */
import { writeFileSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type * as threads from 'node:worker_threads';
import type * as parquet from '../../src/parquet';
import { parquetRows } from '../../src/parquet';
import { ROOT } from '../helpers/cli';

const started = jest.fn();
jest.mock('node:worker_threads', () => {
  const real = jest.requireActual<typeof threads>('node:worker_threads');
  class Worker extends real.Worker {
    constructor(...args: ConstructorParameters<typeof real.Worker>) {
      super(...args);
      started();
    }
  }
  return { ...real, Worker };
});

const FOLDER = join(ROOT, 'test', 'fixtures', 'data', 'hub', 'acoer-test', 'sharded', 'data');
const SHARDS = readdirSync(FOLDER)
  .filter((name) => name.endsWith('.parquet'))
  .map((name) => join(FOLDER, name));

const read = (path: string) => parquetRows(path, { path, zipped: false }, (columns) => columns);

async function idsOf(path: string): Promise<unknown[]> {
  const rows: unknown[] = [];
  for await (const row of read(path)) rows.push(row);
  return rows;
}

/** Reads `path` in a thread that has read nothing before. */
async function readAlone(path: string): Promise<unknown[]> {
  const rows: unknown[] = [];
  await jest.isolateModulesAsync(async () => {
    const { parquetRows: fresh } = jest.requireActual<typeof parquet>('../../src/parquet');
    for await (const row of fresh(path, { path, zipped: false }, (columns) => columns)) rows.push(row);
  });
  return rows;
}

beforeEach(() => started.mockClear());

test('files one after the other are read by one thread, each as if alone', async () => {
  const inTurn: unknown[][] = [];
  for (const path of SHARDS) inTurn.push(await idsOf(path));
  expect(started).toHaveBeenCalledTimes(1);
  for (const [i, path] of SHARDS.entries()) expect(inTurn[i]).toEqual(await readAlone(path));
  expect(new Set(inTurn.map((rows) => JSON.stringify(rows))).size).toBe(SHARDS.length);
});

test('files at the same time have threads of their own', async () => {
  const [first, second] = await Promise.all([idsOf(SHARDS[0]!), idsOf(SHARDS[1]!)]);
  expect(first).toEqual(await readAlone(SHARDS[0]!));
  expect(second).toEqual(await readAlone(SHARDS[1]!));
});

test('a thread whose file failed, or was left early, reads no other', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'acoer-parquet-'));
  const bad = join(folder, 'bad.parquet');
  writeFileSync(bad, 'PAR1 this is not one PAR1');
  const whole = await idsOf(SHARDS[0]!);
  started.mockClear();
  await expect(idsOf(bad)).rejects.toThrow(`Cannot read ${bad} as Parquet`);
  expect(await idsOf(SHARDS[0]!)).toEqual(whole);
  for await (const row of read(SHARDS[1]!)) {
    expect(row).toBeDefined();
    break;
  }
  expect(await idsOf(SHARDS[0]!)).toEqual(whole);
  // For the first after the failure, and for the one after that which was left.
  expect(started).toHaveBeenCalledTimes(2);
  rmSync(folder, { recursive: true });
});
