import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Policy } from '../../src/engine/types';
import { errorCode, exitCodeFor } from '../../src/base/errors';
import {
  createRunDirectory,
  latestRun,
  newRunPath,
  openRunDirectory,
  findCheckpoint,
  pruneCheckpoints,
  saveCheckpoint,
} from '../../src/run';
import { writeDirectoryAtomic, writeFileAtomic } from '../../src/run/atomic';
import { MetricsFile, readMetrics } from '../../src/run/metrics-file';

const root = mkdtempSync(join(tmpdir(), 'acoer-run-'));
afterAll(() => rmSync(root, { recursive: true, force: true }));
const fresh = () => mkdtempSync(join(root, 'folder-'));

function codeOf(work: () => unknown): string | undefined {
  try {
    work();
  } catch (error) {
    return errorCode(error);
  }
  return undefined;
}

describe('atomic writes', () => {
  test('a folder that could not be filled leaves nothing behind, and the previous one stays', async () => {
    const parent = fresh();
    const path = join(parent, 'step');
    await writeDirectoryAtomic(path, async (directory) => writeFileSync(join(directory, 'a'), 'first'));
    const failing = writeDirectoryAtomic(path, async (directory) => {
      writeFileSync(join(directory, 'a'), 'second');
      throw new Error('disk full');
    });
    await expect(failing).rejects.toThrow('disk full');
    expect(readFileSync(join(path, 'a'), 'utf8')).toBe('first');
    expect(readdirSync(parent)).toEqual(['step']);
  });

  test('a file is replaced as a whole', () => {
    const path = join(fresh(), 'x.json');
    writeFileAtomic(path, 'one');
    writeFileAtomic(path, 'two');
    expect(readFileSync(path, 'utf8')).toBe('two');
  });
});

describe('run directory', () => {
  test('the configuration is written first', () => {
    const run = createRunDirectory(join(fresh(), 'new', 'run'), { seed: 1 });
    expect(run.readJson(run.config())).toEqual({ seed: 1 });
    expect(run.finished(1)).toBe(false);
  });

  test('a folder that contains a run is rejected with exit 2; one with other files is not', () => {
    const path = fresh();
    writeFileSync(join(path, 'notes.txt'), '');
    createRunDirectory(path, {}).lock!.release();
    try {
      createRunDirectory(path, {});
      throw new Error('expected an error');
    } catch (error) {
      expect(errorCode(error)).toBe('RUN_EXISTS');
      expect(exitCodeFor(error)).toBe(2);
      expect((error as Error).message).toContain('--resume');
    }
  });

  test('opening removes what a crash left half-written', () => {
    const path = fresh();
    createRunDirectory(path, {}).lock!.release();
    for (const name of ['.tmp-step-000004-123', '.old-step-000003', '.old-step-000002', 'step-000002']) {
      mkdirSync(join(path, 'checkpoints', name));
    }
    // Step 3 was about to be replaced, so its folder gets its name back.
    expect(openRunDirectory(path).checkpointSteps()).toEqual([2, 3]);
    expect(readdirSync(join(path, 'checkpoints')).sort()).toEqual(['step-000002', 'step-000003']);
    expect(codeOf(() => openRunDirectory(fresh()))).toBe('BAD_INPUT');
  });

  test('names contain the date, and a number if taken; the latest is found', () => {
    const parent = fresh();
    const now = new Date(2026, 0, 2, 3, 4, 5);
    const first = newRunPath(parent, 'acoer', now);
    expect(first).toBe(join(parent, '20260102-030405-acoer'));
    createRunDirectory(first, {});
    expect(newRunPath(parent, 'acoer', now)).toBe(`${first}-2`);
    expect(latestRun(parent)).toBe(first);
    expect(codeOf(() => latestRun(join(parent, 'none')))).toBe('BAD_CONFIG');
  });
});

describe('metrics.jsonl', () => {
  test('numbers that are not finite are left out with a warning', async () => {
    const path = join(fresh(), 'metrics.jsonl');
    const warnings: string[] = [];
    const file = await MetricsFile.open(path, 0, (message) => warnings.push(message));
    await file.append({ step: 1, loss: NaN, grad_norm: Infinity, reward: 0.5 });
    file.close();
    expect(readMetrics(path)).toEqual([{ step: 1, reward: 0.5 }]);
    expect(warnings).toEqual([
      'step 1: left out of the metrics because they are not finite: loss=NaN, grad_norm=Infinity',
    ]);
  });

  test('resuming drops later lines and one that was cut off', async () => {
    const path = join(fresh(), 'metrics.jsonl');
    writeFileSync(path, '{"step":1}\n{"step":2}\n{"step":3}\n{"step":4,"lo');
    const file = await MetricsFile.open(path, 2, () => undefined);
    await file.append({ step: 3, reward: 1 });
    file.close();
    expect(readMetrics(path)).toEqual([{ step: 1 }, { step: 2 }, { step: 3, reward: 1 }]);
  });
});

describe('checkpoints', () => {
  const policy = {
    save: async (path: string) => writeFileSync(path, 'adapter'),
    saveOptimizer: async (path: string) => writeFileSync(path, 'optimizer'),
  } as unknown as Policy;
  const contentOf = (step: number) => ({ adapterConfig: {}, state: { at: step }, rollouts: null });
  const silent = () => undefined;

  test('the newest is found, the oldest are removed', async () => {
    const run = createRunDirectory(fresh(), {});
    for (const step of [10, 20, 30]) {
      await saveCheckpoint(run, step, policy, contentOf(step));
      pruneCheckpoints(run, 2, []);
    }
    expect(run.checkpointSteps()).toEqual([20, 30]);
    expect(await findCheckpoint(run, silent)).toMatchObject({ step: 30, state: { at: 30 } });
    expect(readdirSync(run.checkpoint(30)).sort()).toEqual([
      'SHA256SUMS',
      'adapter_config.json',
      'adapter_model.safetensors',
      'optimizer.safetensors',
      'state.json',
    ]);
  });

  test('one whose writing failed does not exist', async () => {
    const run = createRunDirectory(fresh(), {});
    const failing = { ...policy, saveOptimizer: () => Promise.reject(new Error('no space')) } as Policy;
    await expect(saveCheckpoint(run, 5, failing, contentOf(5))).rejects.toThrow('no space');
    expect(existsSync(run.checkpoint(5))).toBe(false);
    expect(await findCheckpoint(run, silent)).toBeNull();
  });
});
