/** The pool: order, wall-clock limit, crashes and closing. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { VerifierPool } from '../../src/grading';
import { builtCli } from '../helpers/cli';

/** The compiled worker of the package. */
const WORKER = join(dirname(builtCli()), '..', 'grading', 'worker.js');
const folder = mkdtempSync(join(tmpdir(), 'acoer-pool-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A worker that hangs on the reference `hang`, dies on `die`, and finds everything else correct. */
function brokenWorker(): string {
  const path = join(folder, 'broken.cjs');
  writeFileSync(
    path,
    `process.on('message', ({ id, items }) => {
      for (const { gold } of items) {
        if (gold === 'hang') for (;;);
        if (gold === 'die') process.abort();
      }
      process.send({ id, verdicts: items.map(({ pred }) => ({ correct: true, status: 'correct', extracted: pred })) });
    });
    process.send('ready');`,
  );
  return path;
}

test('verdicts from all processes come in the order of the pairs', async () => {
  const pool = new VerifierPool({ workers: 2, workerFile: WORKER });
  try {
    const batches = Array.from({ length: 20 }, (_, b) =>
      Array.from({ length: 50 }, (_, i) => ({
        gold: `${b * 50 + i}`,
        pred: `\\boxed{${b * 50 + i + (i % 3 === 0 ? 1 : 0)}}`,
      })),
    );
    const verdicts = await Promise.all(batches.map((batch) => pool.verify(batch)));
    verdicts.flat().forEach((verdict, n) => expect(verdict.correct).toBe((n % 50) % 3 !== 0));
    expect(verdicts[7]![4]!.extracted).toBe('354');
    expect(await pool.verify([])).toEqual([]);
  } finally {
    pool.close();
  }
});

test('a pair carries its config and preset', async () => {
  const pool = new VerifierPool({ workers: 1, workerFile: WORKER });
  try {
    const [rounded, strict] = await pool.verify([
      { gold: '\\frac13', pred: '\\boxed{0.33}', config: { float_rounding: 2 } },
      { gold: '0.5', pred: '\\boxed{\\frac12}', preset: 'trl' },
    ]);
    expect([rounded!.status, strict!.status]).toEqual(['correct', 'unparseable']);
  } finally {
    pool.close();
  }
});

test('a pair that hangs or kills its process gets timeout; the others get their verdicts', async () => {
  const pool = new VerifierPool({ workers: 2, wallMs: 300, workerFile: brokenWorker() });
  try {
    const golds = ['a', 'hang', 'b', 'die', 'c'];
    const verdicts = await pool.verify(golds.map((gold) => ({ gold, pred: gold })));
    expect(verdicts.map(({ status }) => status)).toEqual([
      'correct',
      'timeout',
      'correct',
      'timeout',
      'correct',
    ]);
    expect(verdicts.map(({ extracted }) => extracted)).toEqual(['a', null, 'b', null, 'c']);
    // The pool still works.
    expect((await pool.verify([{ gold: 'a', pred: 'z' }]))[0]!.status).toBe('correct');
  } finally {
    pool.close();
  }
});

test('workers that cannot start are an error, not a hang and not verdicts', async () => {
  const path = join(folder, 'absent.cjs');
  const pool = new VerifierPool({ workers: 2, workerFile: path });
  try {
    await expect(pool.verify([{ gold: '1', pred: '1' }])).rejects.toMatchObject({ code: 'LOAD_FAILED' });
  } finally {
    pool.close();
  }
});

test('closing resolves what is still waiting', async () => {
  const pool = new VerifierPool({ workers: 1, wallMs: 60_000, workerFile: brokenWorker() });
  const waiting = [pool.verify([{ gold: 'hang', pred: '' }]), pool.verify([{ gold: 'a', pred: '' }])];
  pool.close();
  for (const verdicts of await Promise.all(waiting)) expect(verdicts[0]!.status).toBe('timeout');
});
