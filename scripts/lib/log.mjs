/** Progress on stderr: one line that is rewritten on a terminal, a line every few seconds elsewhere. */

/** @param {string} text */
export function say(text) {
  process.stderr.write(`acoer setup: ${text}\n`);
}

/** @param {number} bytes */
export function formatBytes(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${Math.round(bytes / 1e6)} MB`;
}

const PLAIN_INTERVAL_MS = 5000;
const LIVE_INTERVAL_MS = 200;

/**
 * @param {string} what such as "downloading"
 * @returns {{update(done: number, total: number | null): void, end(): void}} both numbers are bytes
 */
export function progress(what) {
  const live = process.stderr.isTTY === true;
  const startMs = Date.now();
  let shownMs = startMs;
  let shownAny = false;
  return {
    update(done, total) {
      const nowMs = Date.now();
      if (nowMs - shownMs < (live ? LIVE_INTERVAL_MS : PLAIN_INTERVAL_MS)) return;
      shownMs = nowMs;
      shownAny = true;
      const rate = done / Math.max(1e-3, (nowMs - startMs) / 1000);
      const share = total ? ` of ${formatBytes(total)} (${Math.floor((100 * done) / total)}%)` : '';
      const text = `${what}: ${formatBytes(done)}${share}, ${formatBytes(rate)}/s`;
      if (live) process.stderr.write(`\r\x1b[Kacoer setup: ${text}`);
      else say(text);
    },
    end() {
      if (live && shownAny) process.stderr.write('\r\x1b[K');
    },
  };
}
