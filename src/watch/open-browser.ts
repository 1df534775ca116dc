/** Opens an address in the browser of the desktop. */
import { spawn } from 'node:child_process';

/** @param failed called with one sentence if there is no browser to open */
export function openBrowser(address: string, failed: (message: string) => void): void {
  const fail = () => failed('The browser could not be opened; open the address yourself.');
  const opener = spawn('xdg-open', [address], { stdio: 'ignore', detached: true });
  opener.on('error', fail);
  opener.on('exit', (code) => {
    if (code !== 0) fail();
  });
  opener.unref();
}

/** Whether somebody sits in front of this machine's screen. */
export function hasDesktop({ DISPLAY, WAYLAND_DISPLAY, SSH_CONNECTION }: NodeJS.ProcessEnv): boolean {
  const screen = [DISPLAY, WAYLAND_DISPLAY].some((name) => name !== undefined && name !== '');
  return screen && SSH_CONNECTION === undefined;
}
