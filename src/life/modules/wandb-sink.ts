/**
 * The sink `wandb`: Weights & Biases through its own Python package, which runs beside the training and reads JSON
 * Lines (docs/decisions/0262). It is loaded like a sink of the user's, in a thread.
 *
 * wandb never goes back to an earlier step. After a resume it drops the steps that it already has, which are the same
 * again. After a rollback they are not, so the run goes on as another wandb run of the same group, from its first step.
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readdirSync } from 'node:fs';
import { basename, join } from 'node:path';
import { errorCode, errorMessage } from '../../base/errors';
import { finiteNumbers } from '../../base/json';
import { trackerTag } from '../../base/metric-names';
import { printableLine } from '../../base/printable';
import { readRegularFileSync } from '../../base/regular-file';
import type { StepMetrics } from '../../base/types';
import { METRICS_FILE, readSoundMetrics, writeFileAtomic } from '../../run';
import type { Sink, SinkMaker } from '../sink';

/** What the package prints, such as where the run can be seen or a missing login, is in the log. */
const WRITER = `
import json, os, sys
given = json.loads(sys.stdin.readline())
log = os.open(given.pop("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.dup2(log, 1)
os.dup2(log, 2)
import wandb
run = wandb.init(**given)
for line in sys.stdin:
    values = json.loads(line)
    run.log(values, step=values["train/global_step"])
run.finish()
`;

/** A writer that has not ended by then ends by itself, without the run. */
const SPARE_MS = 1_000;
const MOST_LOG_BYTES = 1 << 24;
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The last line of the log, which says why Python has ended. */
function lastLine(log: string): string {
  try {
    const lines = readRegularFileSync(log, MOST_LOG_BYTES).toString('utf8').trim().split('\n');
    return printableLine(lines.at(-1)!, 200);
  } catch (error) {
    return errorMessage(error);
  }
}

/** The Python process. Its end before the run's is an error at the next call. */
class Writer {
  private code: number | null = null;
  private readonly ended: Promise<void>;

  private constructor(
    private readonly child: ChildProcess,
    private readonly log: string,
  ) {
    this.ended = new Promise((resolve) => {
      child.on('close', (code, signal) => {
        this.code = code ?? (signal === null ? 0 : 1);
        resolve();
      });
    });
    // It has ended; the log says why.
    child.stdin!.on('error', () => undefined);
  }

  static async open(log: string): Promise<Writer> {
    // In a group of its own, so that Ctrl-C lets it finish.
    const child = spawn('python3', ['-c', WRITER], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
    const writer = new Writer(child, log);
    try {
      await once(child, 'spawn');
    } catch (error) {
      const why = errorCode(error) === 'ENOENT' ? 'there is no python3' : errorMessage(error);
      throw new Error(`${why}; wandb is written by its Python package: pip install wandb, and wandb login`, {
        cause: error,
      });
    }
    return writer;
  }

  send(value: object): void {
    this.check();
    this.child.stdin!.write(`${JSON.stringify(value)}\n`);
  }

  /** Lets it finish. @returns whether it has, within the time */
  async end(limitMs: number): Promise<boolean> {
    this.child.stdin!.end();
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<boolean>((resolve) => {
      timer = setTimeout(() => resolve(false), limitMs);
    });
    const done = await Promise.race([this.ended.then(() => true), late]);
    clearTimeout(timer);
    this.check();
    return done;
  }

  /** Whether Python has been given everything, and ends by itself. */
  get drained(): boolean {
    return this.child.stdin!.writableLength === 0;
  }

  private check(): void {
    if (this.code === null || this.code === 0) return;
    throw new Error(`Python ended with ${this.code}: ${lastLine(this.log)} (${this.log})`);
  }
}

/** The id of the run at wandb, which a resumed run finds again. */
function groupOf(directory: string): string {
  const file = join(directory, 'wandb-id');
  if (existsSync(file)) {
    const id = readRegularFileSync(file, 100).toString('utf8').trim();
    if (UUID.test(id)) return id;
  }
  const id = randomUUID();
  writeFileAtomic(file, id);
  return id;
}

function pointOf({ step, ...metrics }: StepMetrics): Record<string, unknown> {
  const point: Record<string, unknown> = { 'train/global_step': step };
  for (const [name, value] of Object.entries(finiteNumbers(metrics).finite)) point[trackerTag(name)] = value;
  return point;
}

const wandbSink: SinkMaker = ({ directory, config }): Sink => {
  const { WANDB_PROJECT: project, WANDB_NAME: name, WANDB_RUN_GROUP: ownGroup } = process.env;
  const log = join(directory, 'wandb.log');
  const limitMs = Math.max(0, config.sinkTimeoutMs - SPARE_MS);
  const group = groupOf(directory);
  let writer: Writer | null = null;

  const initOf = (rollbacks: number) => ({
    log,
    project: project || 'acoer',
    name: name || basename(directory),
    group: ownGroup || group,
    id: `${group}-${rollbacks}`,
    resume: 'allow',
    allow_val_change: true,
    config,
    dir: directory,
  });

  return {
    // metrics.jsonl has already gone back to the step.
    async rewind() {
      // After a rollback, what is left of the run before goes its own way.
      await writer?.end(0);
      const rollbacks = readdirSync(directory).filter((file) => /^rolled-back-\d+\.jsonl$/.test(file)).length;
      const lines = await readSoundMetrics(join(directory, METRICS_FILE));
      writer = await Writer.open(log);
      writer.send(initOf(rollbacks));
      for (const line of lines) writer.send(pointOf(line));
    },
    // Into a pipe: takes no time, and needs no flush, as a resumed run sends all steps again.
    step: (metrics) => writer!.send(pointOf(metrics)),
    async close() {
      if (writer === null || (await writer.end(limitMs)) || writer.drained) return;
      throw new Error('Python did not take all steps in time; give it more (sinkTimeoutMs)');
    },
  };
};

export default wandbSink;
