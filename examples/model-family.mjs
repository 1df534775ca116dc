// A custom model family: the engine's arithmetic under other names. This example copies the embedded model,
// with config.json and tensors named as another project might name them, registers that family, and asks both
// models for the same completion.
//
//   node examples/model-family.mjs     (in a clone, after `npm ci`; elsewhere import from 'acoer')
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createEngine, loadTokenizer, registerModelFamily, resolveModel } from '../dist/index.js';

const embedded = await resolveModel('tiny');
const THEIRS = { 'model.layers.': 'blocks.', '.self_attn.': '.attention.', '.mlp.': '.feed_forward.' };
const rename = (name, pairs) => pairs.reduce((text, [from, to]) => text.replace(from, to), name);

registerModelFamily({
  architecture: 'ExampleForCausalLM',
  modelType: 'example',
  readSpec(config, path) {
    if (config.activation !== 'silu') throw new Error(`${path}: this engine computes silu only`);
    return {
      vocabSize: config.vocabulary,
      hiddenSize: config.width,
      intermediateSize: config.inner_width,
      numLayers: config.blocks,
      numHeads: config.heads,
      numKvHeads: config.kv_heads,
      headDim: config.head_width,
      maxPositions: config.context,
      rmsNormEps: config.epsilon,
      ropeTheta: config.rope_base,
      ropeScaling: null,
      tieWordEmbeddings: true,
      qkvBias: false,
      qkNorm: true,
      dtype: 'float32',
    };
  },
  tensorName: (stored) =>
    rename(
      stored,
      Object.entries(THEIRS).map(([ours, theirs]) => [theirs, ours]),
    ),
});

/** The embedded model under the other project's names. */
function renamedCopy(directory) {
  const own = JSON.parse(readFileSync(join(embedded.directory, 'config.json'), 'utf8'));
  const config = {
    architectures: ['ExampleForCausalLM'],
    vocabulary: own.vocab_size,
    width: own.hidden_size,
    inner_width: own.intermediate_size,
    blocks: own.num_hidden_layers,
    heads: own.num_attention_heads,
    kv_heads: own.num_key_value_heads,
    head_width: own.head_dim,
    context: own.max_position_embeddings,
    epsilon: own.rms_norm_eps,
    rope_base: own.rope_parameters?.rope_theta ?? own.rope_theta,
    activation: 'silu',
  };
  writeFileSync(join(directory, 'config.json'), JSON.stringify(config));
  const weights = readFileSync(join(embedded.directory, 'model.safetensors'));
  const end = 8 + Number(weights.readBigUInt64LE());
  const header = Object.entries(JSON.parse(weights.toString('utf8', 8, end)));
  const renamed = Object.fromEntries(
    header.map(([name, place]) => [rename(name, Object.entries(THEIRS)), place]),
  );
  const text = Buffer.from(JSON.stringify(renamed));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(join(directory, 'model.safetensors'), Buffer.concat([length, text, weights.subarray(end)]));
}

const directory = mkdtempSync(join(tmpdir(), 'acoer-family-'));
const engine = await createEngine({ device: 'cpu' });
try {
  renamedCopy(directory);
  const tokenizer = await loadTokenizer(embedded.directory);
  const promptIds = tokenizer.encode('What is three plus four?');
  for (const [name, path] of [
    ['embedded', embedded.directory],
    ['renamed', directory],
  ]) {
    const model = await engine.loadModel(path);
    const request = { promptIds, maxNewTokens: 16, seed: 1n, stopIds: Int32Array.from(tokenizer.eosIds) };
    const { sequences } = await model.generate([request]);
    console.log(`${name}: ${[...sequences[0].ids].join(' ')}`);
    await model.dispose();
  }
} finally {
  await engine.dispose();
  rmSync(directory, { recursive: true });
}
