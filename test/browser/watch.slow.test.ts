/** The live page in a real browser. */
import { appendFileSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { FIGURE_GROUPS, TIME_FIGURES } from '../../src/report/figures';
import { RunLock } from '../../src/run/lock';
import { writeCompletions, type CompletionRow } from '../../src/run';
import { startWatch, type WatchServer } from '../../src/watch';
import { builtCli } from '../helpers/cli';
import {
  appendLines,
  rollBack,
  watchedFolder,
  watchedLines,
  writeLock,
  writeRun,
} from '../helpers/watched-runs';
import { describeInBrowser, launch, openPage, violations } from './browser';

let browser: Browser;
const open: { close(): Promise<unknown> }[] = [];

async function watch(path: string): Promise<WatchServer> {
  const server = await startWatch({ path, port: 0 });
  open.push(server);
  return server;
}

/** A page, and what went complaints on it: errors, and requests to other servers. */
async function visit(server: WatchServer, options: BrowserContextOptions = {}) {
  const { page, complaints } = await openPage(browser, server.address, options);
  open.push(page.context());
  page.on('dialog', (dialog) => {
    complaints.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  return { page, complaints };
}

/** Measures in the page how long its handlers of events and its frames take, in milliseconds. */
const TIME_HANDLERS = `
  window.times = [];
  const timed = (work) => function (...words) {
    const began = performance.now();
    work.apply(this, words);
    window.times.push(performance.now() - began);
  };
  const listen = EventSource.prototype.addEventListener;
  EventSource.prototype.addEventListener = function (name, handler) { listen.call(this, name, timed(handler)); };
  const frame = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (work) => frame(timed(work));
`;

const figures = (page: Page) => page.locator('figure.time');
const heading = (page: Page) => page.locator('h1');

/** Scrolls over the page, so that every figure is drawn. */
async function drawAll(page: Page): Promise<void> {
  const height = await page.evaluate<number>('document.documentElement.scrollHeight');
  for (let y = 0; y < height; y += 600) {
    await page.evaluate(`window.scrollTo(0, ${y})`);
    await page.waitForTimeout(30);
  }
  await page.evaluate('window.scrollTo(0, 0)');
}

/** Waits until an expression holds in the page, whose policy forbids playwright's own way of waiting. */
async function holds(page: Page, expression: string): Promise<void> {
  const until = performance.now() + 15_000;
  while (!(await page.evaluate<boolean>(expression))) {
    if (performance.now() > until) throw new Error(`not within 15 s: ${expression}`);
    await page.waitForTimeout(30);
  }
}

const titled = (page: Page, begin: string) =>
  holds(page, `document.title.startsWith(${JSON.stringify(begin)})`);

const captioned = (page: Page, id: string, pattern: RegExp) =>
  holds(
    page,
    `${pattern.toString()}.test(document.querySelector('[data-figure="${id}"] figcaption').textContent)`,
  );

/** The part of a figure's canvas that is not empty, from 0 to 1. */
const drawnShare = (page: Page, id: string) =>
  page.evaluate<number>(`(() => {
    const context = document.querySelector('[data-figure="${id}"] canvas').getContext('2d');
    const { data } = context.getImageData(0, 0, context.canvas.width, context.canvas.height);
    return data.filter((value, i) => i % 4 === 3 && value > 0).length / (data.length / 4);
  })()`);

describeInBrowser('the live page in Chromium', () => {
  beforeAll(async () => {
    builtCli();
    browser = await launch();
  });
  afterAll(() => browser?.close());
  afterEach(async () => {
    for (const each of open.splice(0).reverse()) await each.close();
  });

  test('a run: every figure with data in its group, its marks, its events; nothing from outside', async () => {
    const path = join(watchedFolder(), 'run');
    writeRun(path, { steps: 300, maxSteps: 400 });
    rollBack(path, 300, 200, 400);
    const later = watchedLines(201, 260, 400, 3).map((line) => ({
      ...line,
      'monitor/state': line.step! > 240 ? 1 : 0,
    }));
    appendLines(path, later);
    const { page, complaints } = await visit(await watch(path));
    await figures(page).first().waitFor();
    // The address of a single run leads to its page.
    expect(await heading(page).textContent()).toBe('run');
    await drawAll(page);
    expect(await figures(page).count()).toBe(TIME_FIGURES.length);
    expect(await page.locator('.figure-groups h2').allTextContents()).toEqual(
      FIGURE_GROUPS.map(({ title }) => title),
    );
    expect(await page.locator('.uplot').count()).toBe(TIME_FIGURES.length);
    for (const { id } of TIME_FIGURES) expect([id, (await drawnShare(page, id)) > 0.02]).toEqual([id, true]);
    expect(
      await page.evaluate(
        `[...document.querySelectorAll('[data-figure="accuracy"] .mark')].map((mark) => mark.outerHTML)`,
      ),
    ).toEqual([
      expect.stringMatching(/^<div class="mark rollback" data-step="200"/),
      expect.stringMatching(/^<div class="mark warning" data-step="241"/),
    ]);
    expect(await page.locator('.log').textContent()).toContain(
      'Rollback 1, from step 300 to 200. Accuracy fell',
    );
    expect(await page.title()).toBe('260/400 warning \u00b7 run');
    expect(await violations(page)).toEqual([]);
    expect(complaints).toEqual([]);
  });

  test('a run grows, rolls back, and is killed, while the page looks on', async () => {
    const path = join(watchedFolder(), 'run');
    writeRun(path, { steps: 20, maxSteps: 100 });
    const lock = RunLock.acquire(path);
    const { page, complaints } = await visit(await watch(path));
    await figures(page).first().waitFor();
    await titled(page, '20/100 running');
    const value = page.locator('[data-figure="accuracy"] .value').first();
    const before = await value.textContent();
    appendLines(path, watchedLines(21, 30, 100));
    await holds(
      page,
      `document.querySelector('[data-figure="accuracy"] .value').textContent !== ${JSON.stringify(before)}`,
    );
    await titled(page, '30/100 running');
    const progress = {
      updatedAt: new Date().toISOString(),
      kind: null,
      pid: 1,
      phase: 'generate',
      step: 31,
      maxSteps: 100,
      done: 1,
      total: 4,
      tokens: 90,
    };
    const sequences = [0, 1, 2].map((sample) => ({ problemId: 'p', prompt: 0, sample, tokens: 20 + sample }));
    writeFileSync(
      join(path, 'progress.json'),
      JSON.stringify({ ...progress, tokensPerSecond: 30, sequences }),
    );
    await page.locator('.flight-bar').nth(2).waitFor();
    expect(await page.locator('.flight-line').textContent()).toContain('Generating, step 31, 1 of 4 done');
    rollBack(path, 30, 10, 100);
    await page.locator('[data-figure="accuracy"] .mark.rollback').waitFor();
    lock.release();
    writeLock(path, 999_999_999);
    await page.locator('.run-head .badge.killed').waitFor();
    expect(await page.locator('.flight').isHidden()).toBe(true);
    expect(complaints).toEqual([]);
  });

  test('the list: search, compare, and back by keyboard alone', async () => {
    const root = watchedFolder();
    for (let i = 0; i < 9; i++) writeRun(join(root, `run-${i}`), { steps: 30 + i, seed: i, summary: i > 4 });
    const { page, complaints } = await visit(await watch(root), { reducedMotion: 'reduce' });
    await page.locator('tbody tr').nth(8).waitFor();
    expect(await violations(page)).toEqual([]);
    await page.keyboard.press('Tab');
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to the content');
    await page.locator('input[type=search]').focus();
    await page.keyboard.type('run-3');
    expect(await page.locator('tbody tr').count()).toBe(1);
    await page.keyboard.press('Tab');
    await page.keyboard.press('Space');
    await page.keyboard.press('Shift+Tab');
    for (let i = 0; i < 5; i++) await page.keyboard.press('Backspace');
    await page.locator('tr', { hasText: 'run-7' }).locator('input').focus();
    await page.keyboard.press('Space');
    await page.locator('button', { hasText: 'Compare 2' }).focus();
    await page.keyboard.press('Enter');
    await figures(page).first().waitFor();
    expect(await heading(page).textContent()).toBe('2 runs compared');
    await drawAll(page);
    expect(await page.locator('[data-figure="answer"] .key .item').count()).toBe(4);
    expect(await page.locator('[data-figure="step-time"] .key .label').allTextContents()).toEqual([
      'run-3',
      'run-7',
    ]);
    expect(await page.locator('[data-figure="answer"] .key .label').first().textContent()).toBe(
      'run-3, answer',
    );
    const plot = page.locator('[data-figure="accuracy"] .plot');
    await plot.focus();
    await page.keyboard.press('ArrowLeft');
    await page.keyboard.press('ArrowLeft');
    const captions = page.locator('figure.time figcaption');
    expect(await captions.nth(0).textContent()).toMatch(/^at step 3\d$/);
    // Every figure shows its values at that step.
    expect(await captions.nth(2).textContent()).toBe(await captions.nth(0).textContent());
    await page.keyboard.press('+');
    await page.locator('.zoom-bar').waitFor();
    await page.keyboard.press('Escape');
    await page.locator('.zoom-bar').waitFor({ state: 'hidden' });
    await page.locator('.back').focus();
    await page.keyboard.press('Enter');
    await page.locator('table.runs').waitFor();
    expect(complaints).toEqual([]);
  });

  test('fewer tokens are praised in a healthy run only, and compared runs keep their monitor', async () => {
    const folder = watchedFolder();
    writeRun(join(folder, 'healthy'), { steps: 60 });
    writeRun(join(folder, 'collapsed'), { steps: 0 });
    const fallen = watchedLines(1, 60, 60).map((line) => {
      const late = line.step! > 30;
      return { ...line, 'accuracy/mean': late ? 0.1 : 0.8, 'monitor/state': late ? 2 : 0 };
    });
    appendLines(join(folder, 'collapsed'), fallen);
    const { page } = await visit(await watch(folder));
    const inRow = (name: string, kind: string) => page.locator(`tr[data-run]:has-text("${name}") .${kind}`);
    await inRow('healthy', 'good').waitFor();
    expect(await inRow('collapsed', 'good').count()).toBe(0);
    expect(await inRow('collapsed', 'bad').textContent()).toBe('\u221270.0');
    for (const tick of await page.locator('td.tick input').all()) await tick.check();
    await page.locator('button.primary').click();
    await page.locator('ul.compared .badge.collapsed').waitFor();
  });

  test('a drag zooms every figure into its steps, in full detail', async () => {
    const path = join(watchedFolder(), 'run');
    writeRun(path, { steps: 2_000, maxSteps: 2_000 });
    const { page, complaints } = await visit(await watch(path));
    await figures(page).first().waitFor();
    const over = page.locator('[data-figure="accuracy"] .u-over');
    const box = (await over.boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    expect(await page.locator('[data-figure="accuracy"] figcaption').textContent()).toMatch(
      /^at steps 1,0\d\d to 1,0\d\d$/,
    );
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2 + 40, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.locator('.zoom-bar').waitFor();
    expect(await page.locator('.zoom-bar').textContent()).toMatch(/Steps 1,0\d\d to 1,2\d\d/);
    await page.mouse.move(box.x + 30, box.y + 40);
    await captioned(page, 'accuracy', /^at step 1,0\d\d/);
    await page.mouse.dblclick(box.x + 30, box.y + 40);
    await page.locator('.zoom-bar').waitFor({ state: 'hidden' });
    expect(complaints).toEqual([]);
  });

  test('dark colours, 390 pixels', async () => {
    const root = watchedFolder();
    for (const name of ['one', `${'long-'.repeat(20)}name`])
      writeRun(join(root, name), { steps: 60, lock: 'left' });
    const server = await watch(root);
    const phone = { viewport: { width: 390, height: 844 } };
    const { page, complaints } = await visit(server, { ...phone, colorScheme: 'dark' });
    const fits = () => page.evaluate<boolean>('document.documentElement.scrollWidth <= 390');
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    await page.locator('tbody tr').nth(1).waitFor();
    expect([await fits(), await background()]).toEqual([true, 'rgb(18, 22, 29)']);
    expect(await violations(page)).toEqual([]);
    await page.locator('tr', { hasText: 'long-' }).locator('a').click();
    await figures(page).first().waitFor();
    await drawAll(page);
    expect(await fits()).toBe(true);
    expect(await violations(page)).toEqual([]);
    const dark = await drawnShare(page, 'accuracy');
    await page.locator('header button').click();
    expect(await background()).toBe('rgb(255, 255, 255)');
    expect(Math.abs((await drawnShare(page, 'accuracy')) - dark)).toBeLessThan(0.1);
    expect(complaints).toEqual([]);
  });

  /** Text that would do something if a page took it for more than text. */
  const HOSTILE = [
    '<img src=x onerror="document.title=1;alert(1)">',
    '</script><script>alert(2)</script>',
    '\u001b[31mred\u0007\u0000\u009b',
    '\u202egnp.exe',
  ].join(' ');

  function hostileRow(sample: number): CompletionRow {
    const problem = { id: HOSTILE, question: HOSTILE, gold: HOSTILE, level: HOSTILE };
    const ids = new Int32Array(1);
    const numbers = new Float64Array(1);
    const text = sample === 0 ? HOSTILE : `${HOSTILE}${'<b>x</b>'.repeat(130_000)}`;
    const prompt = { problem, index: 0, text: HOSTILE, ids, thinkOpened: false };
    const verdict = { correct: false, status: 'incorrect' as const, extracted: HOSTILE };
    const counts = {
      thinkingTokens: 1,
      thinkingClosed: true,
      laterThinkingTokens: 0,
      answerTokens: 1,
      totalTokens: 3,
    };
    const rollout = {
      prompt,
      sample,
      ids,
      logprobs: numbers,
      entropies: numbers,
      finish: 'stop' as const,
      text,
      verdict,
    };
    return {
      rollout: { ...rollout, ...counts, format: true },
      reward: { total: 1, parts: {} },
      advantage: 0,
    };
  }

  test('hostile names, problems and completions stay text', async () => {
    const root = watchedFolder();
    const name = '<img src=x onerror=alert(3)>\u001b[31m';
    const path = join(root, name);
    writeRun(path, { steps: 20, config: { model: HOSTILE, reward: HOSTILE } });
    writeRun(join(root, 'other'), { steps: 5 });
    await writeCompletions(join(path, 'completions', 'step-000010.parquet'), 10, [
      hostileRow(0),
      hostileRow(1),
    ]);
    const reason = { number: 1, from: 20, to: 10, pressure: 1, reason: HOSTILE, done: true };
    writeFileSync(join(path, 'rollbacks.json'), JSON.stringify([reason]));
    appendFileSync(join(path, 'metrics.jsonl'), `${HOSTILE}\n`);
    const lock = RunLock.acquire(path);
    const sequences = [{ problemId: HOSTILE, prompt: 0, sample: 0, tokens: 3 }];
    const progress = {
      updatedAt: new Date().toISOString(),
      pid: 1,
      maxSteps: 100,
      kind: null,
      phase: 'generate',
      step: 21,
      done: 0,
      total: 1,
      tokens: 3,
      tokensPerSecond: 1,
      sequences,
    };
    writeFileSync(join(path, 'progress.json'), JSON.stringify(progress));
    const { page, complaints } = await visit(await watch(root));
    await page.locator('tr', { hasText: '<img src=x' }).locator('a').click();
    await page.locator('.completions .rows button').nth(1).waitFor();
    expect(await heading(page).textContent()).toBe('<img src=x onerror=alert(3)>\\x1b[31m');
    await page.locator('.completions .rows button').nth(1).click();
    const text = (await page.locator('.completions article').textContent())!;
    expect(text).toContain(
      '<img src=x onerror="document.title=1;alert(1)"> </script><script>alert(2)</script>',
    );
    expect(text).toContain('\\x1b[31mred\\x07\\x00');
    expect(await page.locator('.completions').textContent()).toContain('characters left out');
    expect(await page.locator('.log').textContent()).toContain('</script><script>alert(2)');
    expect(await page.locator('img, script:not([src])').count()).toBe(0);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(1440);
    lock.release();
    expect(complaints).toEqual([]);
  });

  test('50 runs of 5,000 steps: the first paint and the time of an update', async () => {
    const root = watchedFolder();
    writeRun(join(root, 'run-00'), { steps: 5_000, maxSteps: 6_000 });
    for (let i = 1; i < 50; i++) {
      const path = join(root, `run-${String(i).padStart(2, '0')}`);
      mkdirSync(path);
      writeFileSync(join(path, 'config.json'), readFileSync(join(root, 'run-00', 'config.json')));
      linkSync(join(root, 'run-00', 'metrics.jsonl'), join(path, 'metrics.jsonl'));
    }
    // The last one grows; the others share one file.
    rmSync(join(root, 'run-49'), { recursive: true });
    writeRun(join(root, 'run-49'), { steps: 5_000, maxSteps: 6_000, seed: 2 });
    const lock = RunLock.acquire(join(root, 'run-49'));
    const server = await watch(root);
    const { page, complaints } = await visit(server);
    await page.addInitScript(TIME_HANDLERS);
    await page.reload();
    await page.locator('tbody tr').nth(49).waitFor();
    const paint = await page.evaluate<number>(
      "performance.getEntriesByType('paint').find(({ name }) => name === 'first-contentful-paint').startTime",
    );
    await page.locator('tr', { hasText: 'run-49' }).locator('a').click();
    await figures(page).first().waitFor();
    await page.locator('.status.live').waitFor();
    await page.waitForTimeout(1_000);
    await page.evaluate('void (window.times.length = 0)');
    for (let step = 5_001; step <= 5_005; step++) {
      appendLines(join(root, 'run-49'), watchedLines(step, step, 6_000));
      await page.waitForTimeout(600);
    }
    await titled(page, '5,005/');
    const times = await page.evaluate<number[]>('window.times');
    const sorted = [...times].sort((a, b) => b - a).map((ms) => Number(ms.toFixed(1)));
    console.log(
      `first paint ${paint.toFixed(0)} ms; an update takes ${sorted.slice(0, 4).join(', ')} ms at most`,
    );
    lock.release();
    // Budgets are 1 s and 50 ms; the machines that run tests are shared.
    expect(paint).toBeLessThan(3_000);
    expect(times.length).toBeGreaterThan(5);
    expect(sorted[Math.floor(sorted.length / 2)]).toBeLessThan(50);
    expect(complaints).toEqual([]);
  });
});
