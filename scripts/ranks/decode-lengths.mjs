/** A process of scripts/studies/ranks-measured.mjs: decodes completions of given lengths, and tells how long it took. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { root } from '../lib/study.mjs';

const require = createRequire(import.meta.url);
const { createEngine } = require(join(root, 'dist'));

const [path, dtype, slots, promptTokens] = process.argv.slice(2);
const engine = await createEngine({ device: 'cpu', threads: 1 });
const model = await engine.loadModel(path, { dtype });
const promptIds = Int32Array.from({ length: Number(promptTokens) }, (_, i) => 3 + (i % 20));

process.on('message', (lengths) => {
  const requests = lengths.map((length, i) => ({
    promptIds,
    seed: BigInt(i),
    maxNewTokens: length,
    stopIds: Int32Array.of(),
  }));
  const begun = performance.now();
  model.generate(requests, { maxSlots: Number(slots) }).then(() => process.send(performance.now() - begun));
});
process.send('ready');
