// Weights & Biases through its own Python package, which runs beside the training and reads JSON Lines:
//
//   pip install wandb && wandb login
//   acoer train --set 'sinks=["examples/wandb.mjs"]'        (elsewhere import from 'acoer')
//
// wandb never goes back to an earlier step. After a resume it drops the steps that it already has, which are the
// same again. After a rollback they are not, so the run goes on as another wandb run of the same group, from its
// first step on. What the package prints, such as a missing login, is in RUN/wandb.log.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { trackerTag } from '../dist/index.js';

const WRITER = `
import json, sys, wandb
run = wandb.init(**json.loads(sys.stdin.readline()))
for line in sys.stdin:
    values = json.loads(line)
    run.log(values, step=values["train/global_step"])
run.finish()
`;

/** Starts Python; whatever happens to it, the training goes on. */
function startWriter(directory) {
  const path = join(directory, 'wandb.log');
  const log = openSync(path, 'a');
  // In a group of its own, so that Ctrl-C lets it finish.
  const child = spawn('python3', ['-c', WRITER], { stdio: ['pipe', log, log], detached: true });
  closeSync(log);
  child.on('error', (error) => appendFileSync(path, `${error.message}\n`));
  const ended = new Promise((resolve) => child.on('close', resolve));
  child.stdin.on('error', () => {}); // it has ended; wandb.log says why
  return {
    send: (value) => child.stdin.write(`${JSON.stringify(value)}\n`),
    end() {
      child.stdin.end();
      const timer = setTimeout(() => child.kill(), 60_000);
      return ended.finally(() => clearTimeout(timer));
    },
  };
}

export default function makeSink({ directory, config }) {
  const idFile = join(directory, 'wandb-id');
  if (!existsSync(idFile)) writeFileSync(idFile, randomUUID());
  const group = readFileSync(idFile, 'utf8');
  let writer = null;
  const send = ({ step, ...metrics }) => {
    const tagged = Object.entries(metrics).map(([name, value]) => [trackerTag(name), value]);
    writer.send({ ...Object.fromEntries(tagged), 'train/global_step': step });
  };
  return {
    // metrics.jsonl has already gone back to the step.
    async rewind() {
      await writer?.end();
      const rollbacks = readdirSync(directory).filter((file) => /^rolled-back-\d+\.jsonl$/.test(file)).length;
      const path = join(directory, 'metrics.jsonl');
      const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
      writer = startWriter(directory);
      const id = `${group}-${rollbacks}`;
      writer.send({
        project: 'acoer',
        name: basename(directory),
        group,
        id,
        resume: 'allow',
        allow_val_change: true,
        config,
        dir: directory,
      });
      lines.forEach((line) => send(JSON.parse(line)));
    },
    step: send, // into a pipe: takes no time, and needs no flush, as a resumed run sends all steps again
    close: () => writer?.end(),
  };
}
