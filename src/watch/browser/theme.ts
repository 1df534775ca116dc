/** The colours of the page, and the button that changes them. */
import { h } from '../../report/browser/dom';
import { mountTheme, variable } from '../../report/browser/theme';
import { LINE_COLOURS } from '../../drawing/palette';

const STORED = 'acoer-theme';

/** The colour of a line. */
export const colour = (index: number): string => variable(`--s${index % LINE_COLOURS}`);

/** Some browsers refuse storage; the choice then lasts as long as the page. */
function stored(theme?: string): string | null {
  try {
    if (theme !== undefined) localStorage.setItem(STORED, theme);
    return localStorage.getItem(STORED);
  } catch {
    return null;
  }
}

/** A button that changes the theme. @param changed called when figures need other colours */
export function themeButton(changed: () => void): HTMLElement {
  const { dataset } = document.documentElement;
  const before = stored();
  if (before === 'dark' || before === 'light') dataset.theme = before;
  const button = h('button', { type: 'button', class: 'quiet small' });
  mountTheme(button, (dark) => {
    button.setAttribute('aria-label', dark ? 'Use light colours' : 'Use dark colours');
    stored(dataset.theme);
    changed();
  });
  return button;
}
