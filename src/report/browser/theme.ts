/** A switch between light and dark that overrides the system's choice for this page. */
export function mountTheme(button: HTMLElement): void {
  const dark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen === undefined ? matchMedia('(prefers-color-scheme: dark)').matches : chosen === 'dark';
  };
  const name = () => (button.textContent = dark() ? 'Light' : 'Dark');
  button.hidden = false;
  button.addEventListener('click', () => {
    document.documentElement.dataset.theme = dark() ? 'light' : 'dark';
    name();
  });
  name();
}
