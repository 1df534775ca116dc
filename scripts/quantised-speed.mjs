#!/usr/bin/env node
/**
 * Processor time of decode steps and of a training pass over a base in bfloat16, nf4 and int8, in turns, so that other
 * work on the machine meets all of them; and the most memory that a process takes with each.
 *
 *   node scripts/quantised-speed.mjs --model FOLDER [--rows 1,16,64] [--tokens 16] [--rounds 7] [--threads 1]
 *   node scripts/quantised-speed.mjs --model FOLDER --memory nf4
 *
 * Decoding begins with prompts of 16 random ids, a sample each, which are left out of the time. The pass is forward and
 * backward of a LoRA of rank 16 over 4 sequences of 256 tokens, half of them completion. Prints medians and quartiles,
 * and the ratio to bfloat16 by pairs.
 */
import acoer from '../dist/index.js';
import { scriptArguments } from './lib/arguments.mjs';
import { spread } from './lib/spread.mjs';

const { values } = scriptArguments(import.meta.url, {
  options: {
    model: { type: 'string' },
    rows: { type: 'string', default: '1,16,64' },
    tokens: { type: 'string', default: '16' },
    rounds: { type: 'string', default: '7' },
    threads: { type: 'string', default: '1' },
    memory: { type: 'string' },
  },
});
const [tokens, rounds, threads] = ['tokens', 'rounds', 'threads'].map((name) => Number(values[name]));
const PROMPT = 16;
const SEQUENCES = 4;
const LENGTH = 256;

const engine = await acoer.createEngine({ device: 'cpu', threads });
const { directory } = await acoer.resolveModel(values.model);
const load = (form) =>
  engine.loadModel(directory, { dtype: 'bfloat16', quantization: form === 'bfloat16' ? null : form });
const idsOf = ({ info }, count, row) =>
  Int32Array.from({ length: count }, (_, t) => (7919 * (row + 1) * (t + 1)) % info.vocabSize);

/** Processor milliseconds since `begun`. */
function since(begun) {
  const { user, system } = process.cpuUsage(begun);
  return (user + system) / 1000;
}

/** Of a step. Processor time is read once the first tokens are there, and so begins behind the prompts. */
async function decodeMs(model, rows) {
  const decoder = await model.openDecoder({ positions: PROMPT + tokens, maxSlots: rows });
  let begun;
  const onTokens = () => (begun ??= process.cpuUsage());
  const requests = Array.from({ length: rows }, (_, row) => ({
    promptIds: idsOf(model, PROMPT, row),
    seed: BigInt(row),
    maxNewTokens: tokens,
    stopIds: new Int32Array(),
  }));
  const answers = await Promise.all(requests.map((request) => decoder.add(request, { onTokens })));
  await Promise.all(answers.map(({ sequences }) => sequences));
  const ms = since(begun) / (tokens - 1);
  await decoder.close();
  return ms;
}

/** Of forward and backward. */
async function passMs(model) {
  const policy = await model.createPolicy({ kind: 'lora', rank: 16, alpha: 32, seed: 1n });
  const rows = Array.from({ length: SEQUENCES }, (_, row) => [...idsOf(model, LENGTH, row)]);
  const begun = process.cpuUsage();
  const { logprobs } = await policy.forward({
    ids: Int32Array.from(rows.flat()),
    offsets: Int32Array.from({ length: SEQUENCES + 1 }, (_, i) => i * LENGTH),
    promptLengths: new Int32Array(SEQUENCES).fill(LENGTH / 2),
  });
  await policy.backward(Float64Array.from(logprobs, (_, i) => Math.sin(i) / logprobs.length));
  const ms = since(begun);
  await policy.dispose();
  return ms;
}

async function compare() {
  const forms = ['bfloat16', 'nf4', 'int8'];
  const models = [];
  for (const form of forms) {
    models.push(await load(form));
    console.log(`${form}: weights ${(models.at(-1).info.bytes / 1e9).toFixed(3)} GB`);
  }
  const work = [
    ...values.rows
      .split(',')
      .map((rows) => [`decode step of ${rows}`, (model) => decodeMs(model, Number(rows))]),
    [`pass of ${SEQUENCES * LENGTH} tokens`, passMs],
  ];
  for (const [name, measure] of work) {
    const found = forms.map(() => []);
    for (let round = -1; round < rounds; round++) {
      for (const [i, model] of models.entries()) {
        const ms = await measure(model);
        if (round >= 0) found[i].push(ms);
      }
    }
    for (const [i, form] of forms.entries()) {
      const ratios = found[i].map((ms, round) => ms / found[0][round]);
      console.log(`${name}, ${form}: ${spread(found[i], 1)} ms, of bfloat16's ${spread(ratios, 2)}`);
    }
  }
}

async function memory(form) {
  const begun = process.resourceUsage().maxRSS;
  const model = await load(form);
  const loaded = process.resourceUsage().maxRSS;
  await decodeMs(model, 16);
  await passMs(model);
  const gigabytes = (kilobytes) => `${((kilobytes * 1024) / 1e9).toFixed(2)} GB`;
  console.log(
    `${form}: weights ${(model.info.bytes / 1e9).toFixed(3)} GB; process at most ${gigabytes(begun)} before loading, ${gigabytes(loaded)} loaded, ${gigabytes(process.resourceUsage().maxRSS)} after decoding and a pass`,
  );
}

await (values.memory === undefined ? compare() : memory(values.memory));
await engine.dispose();
