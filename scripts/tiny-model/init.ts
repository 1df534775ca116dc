/**
 * Initial weights under Hugging Face's names: normally distributed, norms 1. The usual standard deviation of
 * 0.02 suits widths of thousands. At width 96 it leaves the arithmetic on a plateau for hundreds of steps; 1
 * / sqrt(width) does not.
 */
import { RandomStream } from '../../src/data/random';
import type { Tensor } from '../../src/run';
import { PADDED_VOCABULARY, TINY_SHAPE } from './vocabulary';

const DEVIATION = 0.1;

function normal(random: RandomStream, rows: number, columns: number): Tensor {
  const data = new Float32Array(rows * columns);
  for (let i = 0; i < data.length; i++) data[i] = DEVIATION * random.normal();
  return { shape: [rows, columns], data };
}

const ones = (size: number): Tensor => ({ shape: [size], data: new Float32Array(size).fill(1) });

export function initialWeights(seed: number): Map<string, Tensor> {
  const random = new RandomStream(seed, 'tiny-model weights');
  const { hiddenSize, numLayers, numHeads, numKvHeads, headDim, intermediateSize } = TINY_SHAPE;
  const weights = new Map<string, Tensor>();
  const linear = (name: string, rows: number, columns: number) =>
    weights.set(name, normal(random, rows, columns));
  linear('model.embed_tokens.weight', PADDED_VOCABULARY, hiddenSize);
  for (let i = 0; i < numLayers; i++) {
    const at = `model.layers.${i}`;
    weights.set(`${at}.input_layernorm.weight`, ones(hiddenSize));
    linear(`${at}.self_attn.q_proj.weight`, numHeads * headDim, hiddenSize);
    linear(`${at}.self_attn.k_proj.weight`, numKvHeads * headDim, hiddenSize);
    linear(`${at}.self_attn.v_proj.weight`, numKvHeads * headDim, hiddenSize);
    linear(`${at}.self_attn.o_proj.weight`, hiddenSize, numHeads * headDim);
    weights.set(`${at}.self_attn.q_norm.weight`, ones(headDim));
    weights.set(`${at}.self_attn.k_norm.weight`, ones(headDim));
    weights.set(`${at}.post_attention_layernorm.weight`, ones(hiddenSize));
    linear(`${at}.mlp.gate_proj.weight`, intermediateSize, hiddenSize);
    linear(`${at}.mlp.up_proj.weight`, intermediateSize, hiddenSize);
    linear(`${at}.mlp.down_proj.weight`, hiddenSize, intermediateSize);
  }
  weights.set('model.norm.weight', ones(hiddenSize));
  return weights;
}
