/** The samples of many prompts, in lists for the engine. */

/** Sequences per list: enough to keep every slot busy, few enough to hold in memory. */
const WINDOW_SEQUENCES = 1024;

/** Some or all of a prompt's samples. */
export interface Piece<Prompt = unknown> {
  index: number;
  prompt: Prompt;
  firstSample: number;
  numSamples: number;
}

/** Every sample that is not done, in order, in windows of at most WINDOW_SEQUENCES. */
export async function* windows<Prompt>(
  prompts: AsyncIterable<Prompt> | Iterable<Prompt>,
  samples: number,
  isDone: (index: number, sample: number) => boolean = () => false,
): AsyncGenerator<Piece<Prompt>[]> {
  let pieces: Piece<Prompt>[] = [];
  let size = 0;
  let index = 0;
  for await (const prompt of prompts) {
    for (let sample = 0; sample < samples; sample++) {
      if (isDone(index, sample)) continue;
      const last = pieces.at(-1);
      if (last?.index === index && last.firstSample + last.numSamples === sample) last.numSamples++;
      else pieces.push({ index, prompt, firstSample: sample, numSamples: 1 });
      if (++size < WINDOW_SEQUENCES) continue;
      yield pieces;
      [pieces, size] = [[], 0];
    }
    index++;
  }
  if (size > 0) yield pieces;
}
