/** What the report adds with JavaScript; without it, figures, tables and answers are there all the same. */
import type { ShownCompletions } from '../shown';
import { mountCompletions } from './completions';
import { mountFigures, type FigureData } from './figures';
import { renderMath } from './math';
import { mountTheme } from './theme';

mountTheme(document.getElementById('theme')!);
for (const text of document.querySelectorAll<HTMLElement>('.math')) renderMath(text);

/** Data in the page: JSON, gzipped, in base64. */
async function unpack<T>(id: string): Promise<T | null> {
  const text = document.getElementById(id)?.textContent ?? '';
  if (text === '') return null;
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return (await new Response(stream).json()) as T;
}

async function mount(): Promise<void> {
  mountFigures((await unpack<FigureData>('figure-data')) ?? {});
  const root = document.getElementById('completions');
  const completions = await unpack<ShownCompletions>('completion-data');
  if (root !== null && completions !== null) mountCompletions(root, completions);
}

void mount();
