/** A report as a reader meets it: in Chromium. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { makeReport } from '../../src/report';
import { TIME_FIGURES } from '../../src/report/figures';
import { readMetrics } from '../../src/run';
import { writeReportedRun, type ReportedRun } from '../helpers/reported-runs';
import { appendLines, rollBack, watchedFolder, watchedLines } from '../helpers/watched-runs';
import { describeInBrowser, launch, openPage, violations } from './browser';

const root = watchedFolder();

async function reportFile(name: string, run: ReportedRun = {}): Promise<{ url: string; path: string }> {
  const path = join(root, name);
  await writeReportedRun(path, run);
  return { url: await reportOn(name, path), path };
}

async function reportOn(name: string, ...paths: string[]): Promise<string> {
  const file = join(root, `${name}.html`);
  writeFileSync(file, (await makeReport(paths)).html);
  return pathToFileURL(file).href;
}

const HOSTILE =
  '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=2"> $\\href{javascript:window.hacked=3}{x}$ ' +
  '\x1b[31mred\x1b[0m \u202eesrever \ud800 $\\def\\x{\\x\\x}\\x$ ';

const count = (page: Page, selector: string) => page.locator(selector).count();
const openAll = (page: Page) =>
  page.evaluate("document.querySelectorAll('details').forEach((one) => (one.open = true))");
const status = (page: Page) => page.locator('#completions [role=status]').textContent();
const overflow = (page: Page) =>
  page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth');

describeInBrowser('a report in Chromium', () => {
  let browser: Browser;
  let one: { url: string; path: string };
  beforeAll(async () => {
    browser = await launch();
    one = await reportFile('one', { problems: 60 });
  });
  afterAll(() => browser.close());

  test('opens without errors and outside requests, with every figure, and breaks no rule of accessibility', async () => {
    for (const colorScheme of ['light', 'dark'] as const) {
      const { page, complaints } = await openPage(browser, one.url, { colorScheme });
      await page.locator('#completions .rows button').first().waitFor();
      const [line] = readMetrics(join(one.path, 'metrics.jsonl'));
      const expected = TIME_FIGURES.filter(({ lines }) =>
        lines.some(({ metric }) => line![metric] !== undefined),
      );
      for (const { id } of expected) expect(await count(page, `figure#${id} svg`)).toBe(1);
      await openAll(page);
      expect(await violations(page, colorScheme === 'light' ? undefined : ['color-contrast'])).toEqual([]);
      expect(complaints).toEqual([]);
      await page.context().close();
    }
  });

  test('a figure has a line for each series, and reads out the step under the pointer', async () => {
    const { page } = await openPage(browser, one.url);
    const figure = page.locator('figure#correct-wrong');
    // Behind each moving average are the values themselves.
    expect(await figure.locator('svg g[data-mark=line] path').count()).toBe(4);
    await figure.scrollIntoViewIfNeeded();
    const box = (await figure.locator('svg').boundingBox())!;
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    const text = (await figure.locator('.readout').textContent())!;
    const [, step, value] = /^step (\d+): thinking\/correct_mean ([\d.]+)/.exec(text)!;
    const line = readMetrics(join(one.path, 'metrics.jsonl')).find(
      (metrics) => metrics.step === Number(step),
    );
    expect(Number(value) / line!['thinking/correct_mean']!).toBeCloseTo(1, 4);
  });

  test('figures are saved as SVG, PNG and CSV', async () => {
    const { page } = await openPage(browser, one.url);
    const saved = async (kind: string) => {
      const waiting = page.waitForEvent('download');
      await page.locator(`figure#accuracy [data-save=${kind}]`).click();
      const download = await waiting;
      expect(download.suggestedFilename()).toBe(`accuracy.${kind}`);
      return readFileSync(await download.path());
    };
    expect((await saved('csv')).toString()).toMatch(/^step,accuracy\/mean,/);
    expect((await saved('svg')).toString()).not.toMatch(/var\(|currentColor/);
    expect((await saved('png')).subarray(1, 4).toString()).toBe('PNG');
  });

  test('completions are filtered, searched, ordered and opened with the keyboard; formulas are MathML', async () => {
    const { page, complaints } = await openPage(browser, one.url);
    const all = Number(/of (\d+)/.exec((await status(page))!)![1]);
    await page.getByLabel('Verdict', { exact: true }).selectOption('incorrect');
    const wrong = Number(/^(\d+) of/.exec((await status(page))!)![1]);
    await page.getByLabel('Verdict', { exact: true }).selectOption('correct');
    const right = Number(/^(\d+) of/.exec((await status(page))!)![1]);
    expect(wrong).toBeGreaterThan(0);
    expect(wrong + right).toBe(all);
    await page.getByLabel('From', { exact: true }).selectOption('training');
    await page.getByLabel('Smallest step').fill('30');
    await page.getByLabel('Largest step').fill('30');
    await page.getByLabel('Search', { exact: true }).fill('7+1');
    const rows = page.locator('#completions .rows button');
    expect(await rows.count()).toBeGreaterThan(0);
    for (const text of await rows.allTextContents()) expect(text).toMatch(/step 30 .*\d*7\+1/);
    await page.getByLabel('Search', { exact: true }).fill('no such words');
    expect(await status(page)).toMatch(/^0 of/);
    expect(await rows.count()).toBe(0);
    await page.getByLabel('Search', { exact: true }).fill('');
    await page.getByLabel('Order', { exact: true }).selectOption('-thinkingTokens');
    const lengths = (await rows.allTextContents()).map((text) => Number(/(\d+) thinking/.exec(text)![1]));
    expect(lengths).toEqual([...lengths].sort((a, b) => b - a));
    await rows.nth(1).focus();
    await page.keyboard.press('Enter');
    expect(await rows.nth(1).getAttribute('aria-current')).toBe('true');
    expect(await count(page, '#completions article math mfrac')).toBe(1);
    expect(complaints).toEqual([]);
  });

  test('light and dark can be switched, and the first key leads past the header', async () => {
    const { page } = await openPage(browser, one.url, { colorScheme: 'dark' });
    const background = () => page.evaluate<string>('getComputedStyle(document.body).backgroundColor');
    const dark = await background();
    await page.getByRole('button', { name: 'Light', exact: true }).click();
    expect(await background()).not.toBe(dark);
    await page.reload();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    // The browser tells of a new place in the page after it has told that the key was pressed.
    await page.waitForURL(/#main$/);
  });

  test('on a phone nothing is wider than the screen; without JavaScript the figures and answers are there', async () => {
    const phone = await openPage(browser, one.url, { viewport: { width: 390, height: 844 } });
    await phone.page.locator('#completions .rows button').first().waitFor();
    expect(await overflow(phone.page)).toBeLessThanOrEqual(0);
    const plain = await openPage(browser, one.url, { javaScriptEnabled: false });
    expect(await count(plain.page, 'figure svg')).toBeGreaterThan(15);
    expect(await plain.page.locator('details.pair .thinking-text').first().isVisible()).toBe(true);
    expect(await plain.page.locator('.figure-tools').first().isVisible()).toBe(false);
    const bytes = await phone.page.pdf({ format: 'A4' });
    expect(bytes.subarray(0, 4).toString()).toBe('%PDF');
  });

  test('a run with a rollback has its marks; several runs are compared', async () => {
    const { path } = await reportFile('marked', { steps: 60, maxSteps: 100, summary: false });
    rollBack(path, 60, 40, 100);
    appendLines(path, [{ ...watchedLines(41, 41, 100)[0]!, 'monitor/state': 2 }]);
    const { page, complaints } = await openPage(browser, await reportOn('marked', path));
    const signs = await page.locator('figure#accuracy text').allTextContents();
    expect(signs.filter((text) => /[↩✕]/.test(text)).length).toBe(2);
    const other = await openPage(browser, await reportOn('several', one.path, path));
    expect(await other.page.locator('#results tbody th').first().textContent()).toMatch('base');
    await openAll(other.page);
    expect(await violations(other.page)).toEqual([]);
    expect([...complaints, ...other.complaints]).toEqual([]);
  });

  test('hostile texts stay text', async () => {
    const long = `${HOSTILE}${'x'.repeat(1_000_000)}`;
    const { url } = await reportFile('hostile', {
      steps: 20,
      problems: 8,
      text: long,
      problemId: () => HOSTILE,
    });
    const { page, complaints } = await openPage(browser, url);
    await page.locator('#completions .rows button').first().waitFor();
    await openAll(page);
    expect(await page.evaluate('window.hacked')).toBe(undefined);
    expect(await count(page, 'img')).toBe(0);
    expect(await count(page, 'a[href^="javascript"]')).toBe(0);
    expect((await page.locator('#completions article').textContent())!.includes('window.hacked=1')).toBe(
      true,
    );
    expect(await page.evaluate<boolean>('/[\\u001b\\u202e]/.test(document.body.textContent)')).toBe(false);
    expect(await overflow(page)).toBeLessThanOrEqual(0);
    expect(complaints).toEqual([]);
  });
});
