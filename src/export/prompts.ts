/** The prompts on which an export is compared with its run. */
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { readCompletions, type RunDirectory } from '../run';
import type { Tokenizer } from '../tokenizer';

/** For runs that keep no completions, such as those of `acoer sft`. */
const QUESTIONS = [
  'What is 17 + 25?',
  'A train travels 180 km in 3 hours. How fast is it?',
  'Solve 3x - 7 = 11.',
  'List the prime numbers below 30.',
  'Write a Python function that reverses a string.',
  'What is the area of a circle of radius 4?',
  'Explain why the sky is blue.',
  'Translate "good morning" into French.',
];

/** Tables of answers and completions, the newest first. */
function tables(run: RunDirectory): string[] {
  return ['evaluations', 'completions'].flatMap((name) => {
    const folder = join(run.path, name);
    if (!existsSync(folder)) return [];
    const files = readdirSync(folder).filter((file) => file.endsWith('.parquet'));
    return files
      .sort()
      .reverse()
      .map((file) => join(folder, file));
  });
}

/** Prompts as the model saw them: `count` different ones of the run's newest tables. */
async function recorded(run: RunDirectory, count: number): Promise<string[]> {
  const found = new Set<string>();
  for (const table of tables(run)) {
    for (const { prompt } of await readCompletions(table)) {
      if (found.size < count) found.add(prompt);
    }
    if (found.size >= count) break;
  }
  return [...found];
}

const asked = (tokenizer: Tokenizer) =>
  QUESTIONS.map((content) =>
    tokenizer.renderChat([{ role: 'user', content }], { enableThinking: true, addGenerationPrompt: true }),
  );

/** Ids of at most `count` prompts of the run, shorter than `maxTokens`; common questions if it has none. */
export async function proofPrompts(
  run: RunDirectory,
  tokenizer: Tokenizer,
  { count, maxTokens }: { count: number; maxTokens: number },
): Promise<Int32Array[]> {
  const texts = await recorded(run, count);
  return (texts.length > 0 ? texts : asked(tokenizer))
    .map((text) => tokenizer.encode(text))
    .filter((ids) => ids.length > 0 && ids.length < maxTokens);
}
