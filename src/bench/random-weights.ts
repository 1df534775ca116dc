/** Streams a Hugging Face directory of random bf16 weights to disk; memory stays flat at any shape. */
// eslint-disable-next-line no-restricted-imports -- writes
import { open, statfs, writeFile, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { badInput } from '../base/errors';
import { makeFolders } from '../base/folders';
import { streamSeed } from '../base/rng';
import { normalP } from '../base/statistics';
import { BYTES_PER_ELEMENT, parameterCount, widths } from '../plan/cost';
import type { NamedShape } from '../plan/shapes';
import { safetensorsHeader } from '../run/safetensors';
import { gigabytes } from '../base/text';

const STD = 0.02;
const CHUNK_ELEMENTS = 1 << 21;

interface TensorPlan {
  name: string;
  shape: number[];
  /** null: drawn from N(0, STD); else the value of every element. */
  constant: number | null;
  /** Key of the draws: a tied head has the embedding's. */
  key: string;
}

/** All tensors, with Hugging Face's names and in its order. */
function tensorPlans(shape: NamedShape): TensorPlan[] {
  const { D, F, q, kv } = widths(shape);
  const tensor = (name: string, sizes: number[], constant: number | null = null): TensorPlan => ({
    name,
    shape: sizes,
    constant,
    key: name,
  });
  const matrix = (name: string, rows: number, columns: number) => tensor(`${name}.weight`, [rows, columns]);
  const projection = (name: string, rows: number): TensorPlan[] => [
    matrix(name, rows, D),
    ...(shape.qkvBias ? [tensor(`${name}.bias`, [rows])] : []),
  ];
  const norm = (name: string, size: number, scale = 1) => tensor(`${name}.weight`, [size], scale);
  const embedding = matrix('model.embed_tokens', shape.vocabSize, D);
  const plans = [embedding];
  for (let layer = 0; layer < shape.numLayers; layer++) {
    const at = `model.layers.${layer}`;
    plans.push(
      norm(`${at}.input_layernorm`, D),
      ...projection(`${at}.self_attn.q_proj`, q),
      ...projection(`${at}.self_attn.k_proj`, kv),
      ...projection(`${at}.self_attn.v_proj`, kv),
      matrix(`${at}.self_attn.o_proj`, D, q),
      ...(shape.qkNorm
        ? ['q_norm', 'k_norm'].map((name) => norm(`${at}.self_attn.${name}`, shape.headDim))
        : []),
      norm(`${at}.post_attention_layernorm`, D),
      matrix(`${at}.mlp.gate_proj`, F, D),
      matrix(`${at}.mlp.up_proj`, F, D),
      matrix(`${at}.mlp.down_proj`, D, F),
    );
  }
  plans.push(norm('model.norm', D, finalNormScale(shape)));
  const head = matrix('lm_head', shape.vocabSize, D);
  if (!shape.tieWordEmbeddings) plans.push(head);
  else if (shape.storesTiedHead) plans.push({ ...head, key: embedding.key });
  return plans;
}

/**
 * Random logits are N(0, s^2) with s = scale * STD * sqrt(D), and the entropy of their softmax is about ln V
 * - s^2/2. This scale makes it about one nat, so that sampling has a realistic spread.
 */
function finalNormScale(shape: NamedShape): number {
  return Math.sqrt(2 * (Math.log(shape.vocabSize) - 1)) / (STD * Math.sqrt(shape.hiddenSize));
}

function toBfloat16(value: number): number {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  // Round to nearest, ties to even.
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16;
}

/** Normal values times STD as bf16 at 65,536 evenly spaced probabilities: one look-up per weight. */
function normalTable(): Uint16Array {
  const table = new Uint16Array(65_536);
  for (let i = 0; i < table.length; i++)
    table[i] = toBfloat16(STD * normalQuantile((i + 0.5) / table.length));
  return table;
}

/** Inverse normal CDF, by bisection. */
function normalQuantile(probability: number): number {
  let low = -6;
  let high = 6;
  for (let i = 0; i < 40; i++) {
    const middle = (low + high) / 2;
    if (normalCdf(middle) < probability) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

function normalCdf(x: number): number {
  const tail = normalP(x) / 2;
  return x < 0 ? tail : 1 - tail;
}

/** xorshift32 gives two table indices per draw; its state is keyed by the tensor's name and never zero. */
function fillNormal(out: Uint16Array, count: number, state: number, table: Uint16Array): number {
  for (let i = 0; i < count; i += 2) {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    out[i] = table[state & 0xffff]!;
    out[i + 1] = table[state >>> 16]!;
  }
  return state;
}

const elementsOf = (plan: TensorPlan): number => plan.shape.reduce((product, size) => product * size, 1);

async function writeShard(file: FileHandle, plans: TensorPlan[], seed: number, table: Uint16Array) {
  const bytesOf = (plan: TensorPlan) => elementsOf(plan) * BYTES_PER_ELEMENT.bfloat16;
  const entries = plans.map((plan) => ({ ...plan, dtype: 'BF16', byteLength: bytesOf(plan) }));
  await file.appendFile(safetensorsHeader(entries));
  const chunk = new Uint16Array(CHUNK_ELEMENTS);
  for (const plan of plans) {
    let state = Number(streamSeed(seed, plan.key) & 0xffffffffn) | 1;
    if (plan.constant !== null) chunk.fill(toBfloat16(plan.constant));
    for (let left = elementsOf(plan); left > 0; left -= CHUNK_ELEMENTS) {
      const count = Math.min(left, CHUNK_ELEMENTS);
      if (plan.constant === null) state = fillNormal(chunk, count + (count & 1), state, table);
      await file.appendFile(new Uint8Array(chunk.buffer, 0, count * BYTES_PER_ELEMENT.bfloat16));
    }
  }
}

/** Consecutive tensors in shards of nearly equal size; a stored tied head gets its own, as on the hub. */
function cutIntoShards(plans: TensorPlan[], shape: NamedShape): TensorPlan[][] {
  if (!shape.tieWordEmbeddings || !shape.storesTiedHead || shape.shards === 1) {
    return equalParts(plans, shape.shards);
  }
  return [...equalParts(plans.slice(0, -1), shape.shards - 1), plans.slice(-1)];
}

function equalParts(plans: TensorPlan[], shards: number): TensorPlan[][] {
  const total = plans.reduce((sum, plan) => sum + elementsOf(plan), 0);
  const parts: TensorPlan[][] = Array.from({ length: shards }, () => []);
  let before = 0;
  for (const plan of plans) {
    parts[Math.min(shards - 1, Math.floor((before / total) * shards))]!.push(plan);
    before += elementsOf(plan);
  }
  return parts;
}

const ARCHITECTURES = {
  qwen3: 'Qwen3ForCausalLM',
  qwen2: 'Qwen2ForCausalLM',
  llama: 'LlamaForCausalLM',
} as const;

function configOf(shape: NamedShape): Record<string, unknown> {
  return {
    architectures: [ARCHITECTURES[shape.modelType]],
    model_type: shape.modelType,
    attention_bias: false,
    head_dim: shape.headDim,
    hidden_act: 'silu',
    hidden_size: shape.hiddenSize,
    intermediate_size: shape.intermediateSize,
    max_position_embeddings: shape.maxPositions,
    num_attention_heads: shape.numHeads,
    num_hidden_layers: shape.numLayers,
    num_key_value_heads: shape.numKvHeads,
    rms_norm_eps: 1e-6,
    rope_scaling: shape.ropeScaling,
    rope_theta: shape.ropeTheta,
    sliding_window: null,
    tie_word_embeddings: shape.tieWordEmbeddings,
    torch_dtype: 'bfloat16',
    use_sliding_window: false,
    vocab_size: shape.vocabSize,
  };
}

/** Bytes of all tensors in the files. */
function storedBytes(shape: NamedShape): number {
  const head = shape.tieWordEmbeddings && shape.storesTiedHead ? shape.vocabSize * shape.hiddenSize : 0;
  return (parameterCount(shape) + head) * BYTES_PER_ELEMENT.bfloat16;
}

async function checkSpace(directory: string, shape: NamedShape): Promise<void> {
  const need = storedBytes(shape) * 1.01;
  const { bavail, bsize } = await statfs(directory);
  if (bavail * bsize >= need) return;
  throw badInput(
    `random weights at the shape ${shape.name} need ${gigabytes(need, 1)} but ${directory} has only ` +
      `${gigabytes(bavail * bsize, 1)} free; choose another folder.`,
  );
}

/**
 * Writes config.json and model.safetensors (or shards and their index) to `directory`. The same seed gives
 * the same bytes. config.json is written last, so its presence means that the directory is complete.
 */
export async function writeRandomWeights(directory: string, shape: NamedShape, seed = 1): Promise<void> {
  makeFolders(directory);
  await checkSpace(directory, shape);
  const table = normalTable();
  const shards = cutIntoShards(tensorPlans(shape), shape);
  const weightMap: Record<string, string> = {};
  for (const [index, plans] of shards.entries()) {
    const place = (n: number): string => String(n).padStart(5, '0');
    const name =
      shards.length === 1
        ? 'model.safetensors'
        : `model-${place(index + 1)}-of-${place(shards.length)}.safetensors`;
    for (const plan of plans) weightMap[plan.name] = name;
    const file = await open(join(directory, name), 'w');
    try {
      await writeShard(file, plans, seed, table);
    } finally {
      await file.close();
    }
  }
  if (shards.length > 1) {
    const metadata = { total_size: storedBytes(shape) };
    const text = JSON.stringify({ metadata, weight_map: weightMap }, null, 2);
    await writeFile(join(directory, 'model.safetensors.index.json'), text);
  }
  await writeFile(join(directory, 'config.json'), JSON.stringify(configOf(shape), null, 2));
}
