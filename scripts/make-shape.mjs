// Random bf16 weights at a true model shape, for benches and memory checks:
//   node scripts/make-shape.mjs qwen3-1.7b DIRECTORY [SEED]
// Needs the compiled package (npm run build:ts).
import shapes from '../dist/plan/shapes.js';
import weights from '../dist/bench/random-weights.js';

const [name, directory, seed = '1'] = process.argv.slice(2);
const shape = shapes.SHAPES[name];
if (shape === undefined || directory === undefined || !/^\d+$/.test(seed)) {
  console.error(
    `usage: node scripts/make-shape.mjs ${Object.keys(shapes.SHAPES).join('|')} DIRECTORY [SEED]`,
  );
  process.exit(2);
}
await weights.writeRandomWeights(directory, shape, Number(seed));
console.log(directory);
