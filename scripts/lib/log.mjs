/** Progress on stderr: one line that is rewritten on a terminal, a line every few seconds elsewhere. */

/**
 * Text of a server, an archive or pip without what a terminal would obey. As in src/base/printable.ts: set-up also runs
 * before that file is compiled.
 * @param {string} text
 */
function plain(text) {
  return text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu, (character) =>
    character === '\n' ? character : `\\u{${character.codePointAt(0)?.toString(16)}}`,
  );
}

/** @param {string} text */
export function say(text) {
  process.stderr.write(`acoer setup: ${plain(text)}\n`);
}

/** @param {number} bytes */
export function formatBytes(bytes) {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(2)} GB` : `${Math.round(bytes / 1e6)} MB`;
}

const PLAIN_INTERVAL_MS = 5000;
const LIVE_INTERVAL_MS = 200;

/** A line that is rewritten on a terminal; elsewhere, occasional lines. */
function statusLine() {
  const live = process.stderr.isTTY === true;
  let shownMs = Date.now();
  let shownAny = false;
  return {
    /** @param {() => string} text called only when a line is due */
    show(text) {
      const nowMs = Date.now();
      if (nowMs - shownMs < (live ? LIVE_INTERVAL_MS : PLAIN_INTERVAL_MS)) return;
      shownMs = nowMs;
      shownAny = true;
      if (live) process.stderr.write(`\r\x1b[Kacoer setup: ${text()}`);
      else say(text());
    },
    /** Makes room for other output; the next `show` writes the line again. */
    clear() {
      if (live && shownAny) process.stderr.write('\r\x1b[K');
    },
  };
}

/**
 * @param {string} what such as "downloading"
 * @returns {{update(done: number, total: number | null): void, end(): void}} both numbers are bytes
 */
export function progress(what) {
  const startMs = Date.now();
  const line = statusLine();
  return {
    update(done, total) {
      line.show(() => {
        const rate = done / Math.max(1e-3, (Date.now() - startMs) / 1000);
        const share = total ? ` of ${formatBytes(total)} (${Math.floor((100 * done) / total)}%)` : '';
        return `${what}: ${formatBytes(done)}${share}, ${formatBytes(rate)}/s`;
      });
    },
    end: line.clear,
  };
}

/** @param {number} ms */
function timeLeft(ms) {
  return ms < 90_000 ? `${Math.max(1, Math.round(ms / 1000))} s` : `${Math.round(ms / 60_000)} min`;
}

/**
 * The progress in a line such as Ninja's `[12/52] Building...` or Make's `[ 23%] Building...`: done, total
 * and text.
 * @param {string} line
 */
function buildStep(line) {
  const ninja = /^\[(\d+)\/(\d+)\] /.exec(line);
  if (ninja)
    return { done: Number(ninja[1]), total: Number(ninja[2]), text: `${ninja[1]} of ${ninja[2]} files` };
  const make = /^\[ *(\d+)%\] /.exec(line);
  return make && { done: Number(make[1]), total: 100, text: `${make[1]}%` };
}

/**
 * Shows the steps that Ninja or Make prints as one line of progress; compiler messages are passed through.
 * @returns {{onText(text: string): void, end(): void}}
 */
export function compileProgress() {
  const startMs = Date.now();
  const line = statusLine();
  let rest = '';
  const onLine = (/** @type {string} */ text) => {
    const step = buildStep(text);
    if (text === 'ninja: no work to do.') return;
    if (!step) {
      line.clear();
      process.stderr.write(`${text}\n`);
      return;
    }
    // Ninja also counts its own checks, such as whether CMake has to run again.
    if (!/\] (Building|Linking) /.test(text)) return;
    const leftMs = ((Date.now() - startMs) / Math.max(1, step.done)) * (step.total - step.done);
    const left = step.done === step.total ? '' : `, about ${timeLeft(leftMs)} left`;
    line.show(() => `compiling the engine: ${step.text}${left}`);
  };
  return {
    onText(text) {
      const lines = (rest + text).split('\n');
      rest = lines.pop() ?? '';
      lines.forEach(onLine);
    },
    end() {
      line.clear();
      if (rest !== '') onLine(rest);
    },
  };
}
