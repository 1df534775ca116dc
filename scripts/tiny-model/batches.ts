/** Supervised batches: examples of similar length, drawn from a seeded corpus. */
import type { RandomStream } from '../../src/data/random';
import { drawFrom, question, TINY_LEVELS } from '../../src/data/tiny/task';
import type { Tokenizer } from '../../src/tokenizer';
import { drawCompletion, drawDrillLine, type DrillStyle, type TraceStyle } from './corpus';

export interface Example {
  promptIds: Int32Array;
  completionIds: Int32Array;
  /** Per completion token: 1 if it is trained on. */
  mask: Uint8Array;
}

type Encoder = Pick<Tokenizer, 'encode' | 'renderChat'>;

const MAX_COMPLETION_TOKENS = 300;

/** Lines of unrelated arithmetic. Only the results are trained on, because the operands are noise. */
export function drawDrill(tokenizer: Encoder, style: DrillStyle, random: RandomStream): Example {
  const lines = Array.from({ length: style.lines }, () => drawDrillLine(random, style));
  const completionIds = tokenizer.encode(lines.join(''));
  const [equals] = tokenizer.encode('=');
  return {
    promptIds: tokenizer.encode('<think>\n'),
    completionIds,
    mask: Uint8Array.from(completionIds, (_, i) => Number(completionIds[i - 1] === equals)),
  };
}

/** A question with an answer in the given style, with every token of the answer trained on. */
export function drawExample(tokenizer: Encoder, style: TraceStyle, random: RandomStream): Example {
  for (;;) {
    const level = TINY_LEVELS[random.integer(0, TINY_LEVELS.length - 1)]!;
    const chain = drawFrom(random, level, 'train');
    const completionIds = tokenizer.encode(`${drawCompletion(random, style, chain)}<|im_end|>`);
    if (completionIds.length > MAX_COMPLETION_TOKENS) continue;
    const prompt = tokenizer.renderChat([{ role: 'user', content: question(chain) }], {
      enableThinking: true,
      addGenerationPrompt: true,
    });
    return {
      promptIds: tokenizer.encode(prompt),
      completionIds,
      mask: new Uint8Array(completionIds.length).fill(1),
    };
  }
}

const lengthOf = (example: Example): number => example.promptIds.length + example.completionIds.length;

/** Enough examples for `batches` batches of about `tokensPerBatch` tokens. */
export function drawPool(draw: () => Example, batches: number, tokensPerBatch: number): Example[] {
  const pool: Example[] = [];
  for (let tokens = 0; tokens < batches * tokensPerBatch;) {
    const example = draw();
    pool.push(example);
    tokens += lengthOf(example);
  }
  return pool;
}

/**
 * Sorts the pool by length, cuts it into batches of nearly equal numbers of tokens and shuffles those, so
 * that a batch has similar lengths but the order of batches is random.
 */
export function bucket(pool: readonly Example[], tokensPerBatch: number, random: RandomStream): Example[][] {
  const sorted = [...pool].sort((a, b) => lengthOf(a) - lengthOf(b));
  const total = sorted.reduce((sum, example) => sum + lengthOf(example), 0);
  const count = Math.max(1, Math.round(total / tokensPerBatch));
  const batches = Array.from({ length: count }, (): Example[] => []);
  let tokens = 0;
  for (const example of sorted) {
    batches[Math.min(count - 1, Math.floor((tokens * count) / total))]!.push(example);
    tokens += lengthOf(example);
  }
  return random.shuffle(batches.filter((batch) => batch.length > 0));
}
