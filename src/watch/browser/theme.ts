/** Light and dark: as the system has it, until the reader chooses. */
import { h, setText } from '../../report/browser/dom';
import { isDark } from '../../report/browser/theme';
import { LINE_COLOURS } from '../../drawing/palette';

const STORED = 'acoer-theme';
const dark = window.matchMedia('(prefers-color-scheme: dark)');

/** The value of a variable of the style sheet. */
export const variable = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

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
  const before = stored();
  if (before === 'dark' || before === 'light') document.documentElement.dataset.theme = before;
  const button = h('button', { type: 'button', class: 'quiet' });
  const show = () => {
    setText(button, isDark() ? 'Light' : 'Dark');
    button.setAttribute('aria-label', isDark() ? 'Use light colours' : 'Use dark colours');
  };
  button.addEventListener('click', () => {
    const theme = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = theme;
    stored(theme);
    show();
    changed();
  });
  dark.addEventListener('change', () => {
    show();
    changed();
  });
  show();
  return button;
}
