/** Whether the page is dark: as chosen, or else as the system has it. */
export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen === undefined ? matchMedia('(prefers-color-scheme: dark)').matches : chosen === 'dark';
}

/** A switch between light and dark that overrides the system's choice for this page. */
export function mountTheme(button: HTMLElement): void {
  const name = () => (button.textContent = isDark() ? 'Light' : 'Dark');
  button.hidden = false;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = isDark() ? 'light' : 'dark';
    name();
  });
  name();
}
