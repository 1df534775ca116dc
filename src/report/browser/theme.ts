/** Light and dark: as the system has it, until the reader chooses. */
const system = window.matchMedia('(prefers-color-scheme: dark)');

/** The value of a variable of the style sheet. */
export const variable = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Makes a button switch between them. @param shown called at first and after every change */
export function mountTheme(button: HTMLElement, shown?: (dark: boolean) => void): void {
  const { dataset } = document.documentElement;
  const isDark = () => (dataset.theme === undefined ? system.matches : dataset.theme === 'dark');
  const show = () => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    shown?.(isDark());
  };
  button.hidden = false;
  button.addEventListener('click', () => {
    dataset.theme = isDark() ? 'light' : 'dark';
    show();
  });
  system.addEventListener('change', show);
  show();
}
