// A tracker that has only a Python package, here Trackio, which runs beside the training and reads JSON Lines:
//
//   pip install trackio
//   acoer train --set 'sinks=["examples/trackio.mjs"]'        (elsewhere import from 'acoer')
//
// Trackio gives a name that is taken another one, so each start of a run becomes a run of Trackio's with every step
// once. What the package prints is in RUN/trackio.log. (Weights & Biases is built in: sinks: [wandb].)
import { spawn } from 'node:child_process';
import { appendFileSync, closeSync, openSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { trackerTag } from '../dist/index.js';

const WRITER = `
import json, sys, trackio
trackio.init(**json.loads(sys.stdin.readline()))
for line in sys.stdin:
    values = json.loads(line)
    trackio.log(values, step=values["train/global_step"])
trackio.finish()
`;

/** Starts Python; whatever happens to it, the training goes on. */
function startWriter(directory) {
  const path = join(directory, 'trackio.log');
  const log = openSync(path, 'a');
  // In a group of its own, so that Ctrl-C lets it finish.
  const child = spawn('python3', ['-c', WRITER], { stdio: ['pipe', log, log], detached: true });
  closeSync(log);
  child.on('error', (error) => appendFileSync(path, `${error.message}\n`));
  const ended = new Promise((resolve) => child.on('close', resolve));
  child.stdin.on('error', () => {}); // it has ended; trackio.log says why
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
  let writer = null;
  const send = ({ step, ...metrics }) => {
    const tagged = Object.entries(metrics).map(([name, value]) => [trackerTag(name), value]);
    writer.send({ ...Object.fromEntries(tagged), 'train/global_step': step });
  };
  return {
    // metrics.jsonl has already gone back to the step.
    async rewind() {
      await writer?.end();
      const path = join(directory, 'metrics.jsonl');
      const lines = readFileSync(path, 'utf8').split('\n').filter(Boolean);
      writer = startWriter(directory);
      writer.send({ project: 'acoer', name: basename(directory), config });
      lines.forEach((line) => send(JSON.parse(line)));
    },
    step: send, // into a pipe: takes no time, and needs no flush, as a resumed run sends all steps again
    close: () => writer?.end(),
  };
}
