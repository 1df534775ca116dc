/** What the report adds with JavaScript; without it, figures, tables and answers are there all the same. */
import type { ShownCompletions } from '../shown';
import { mountCompletions } from './completions';
import { mountFigures, type FigureData } from './figures';
import { renderMath } from './math';
import { mountTheme } from './theme';
import { unpack } from './unpack';

document.documentElement.classList.add('js');
mountTheme(document.getElementById('theme')!);
for (const text of document.querySelectorAll<HTMLElement>('.math')) renderMath(text);

async function mount(): Promise<void> {
  mountFigures((await unpack<FigureData>('figure-data')) ?? {});
  const root = document.getElementById('completions');
  const completions = await unpack<ShownCompletions>('completion-data');
  if (root !== null && completions !== null) mountCompletions(root, completions);
}

void mount();
