// A sink receives a run's numbers in addition to the run's own files. In a configuration:
//
//   sinks: [./sink.mjs]
//
// or acoer train --set 'sinks=["examples/sink.mjs"]'. This one writes a line of reward and thinking per step.
import { appendFileSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

export default function makeSink({ directory }) {
  const path = join(directory, 'reward.csv');
  return {
    // After a resume or a rollback, steps are repeated: remove what was written for them.
    rewind(step) {
      const lines = existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [];
      const kept = lines.filter((line) => Number(line.split(',')[0]) <= step);
      writeFileSync(path, kept.map((line) => `${line}\n`).join(''));
    },
    step(metrics) {
      appendFileSync(path, `${metrics.step},${metrics.reward},${metrics['thinking/mean']}\n`);
    },
  };
}
