/** Pages in a real browser: Chromium, found on this machine, driven by playwright-core. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, join } from 'node:path';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';

import { needs } from '../helpers/needs';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable'];

/** Path of a Chromium: `CHROMIUM`, or one on the PATH; null if there is none. */
function findChromium(): string | null {
  const given = process.env.CHROMIUM;
  if (given !== undefined) return given;
  const folders = (process.env.PATH ?? '').split(delimiter);
  const paths = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return paths.find((path) => existsSync(path)) ?? null;
}

const executablePath = findChromium();
// Chromium refuses its sandbox to root, as which containers run.
const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];

/** Whether it starts: the name may be a stub that asks for a snap, and a container may forbid the sandbox. */
function starts(): boolean {
  if (executablePath === null) return false;
  const words = ['--headless', ...args, '--dump-dom', 'about:blank'];
  return spawnSync(executablePath, words, { timeout: 60_000 }).status === 0;
}

export const describeInBrowser = needs(
  'a Chromium that starts (install it or set CHROMIUM)',
  starts(),
).describe;

export async function launch(): Promise<Browser> {
  const { chromium } = await import('playwright-core');
  return chromium.launch({ executablePath: executablePath!, args });
}

export interface OpenPage {
  page: Page;
  /** Messages of level error, exceptions, and addresses asked for outside the page's own. */
  complaints: string[];
}

/** A page whose errors and outside requests are recorded. */
export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  const { origin, protocol } = new URL(url);
  page.on('request', (request) => {
    const asked = new URL(request.url());
    const own = protocol === 'file:' ? request.url() === url : asked.origin === origin;
    if (!own && !['data:', 'blob:'].includes(asked.protocol)) complaints.push(`asked for ${request.url()}`);
  });
  await page.goto(url);
  return { page, complaints };
}

interface AxeResults {
  violations: { id: string; nodes: { html: string }[] }[];
}

const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];
const AXE = createRequire(__filename).resolve('axe-core/axe.min.js');

/** Rules of axe-core that the page breaks, by default those of WCAG 2.2 A and AA and its best practices. */
export async function violations(page: Page, rules: readonly string[] = RULES): Promise<string[]> {
  await page.evaluate(readFileSync(AXE, 'utf8'));
  const results = await page.evaluate<AxeResults>(`axe.run({ runOnly: ${JSON.stringify(rules)} })`);
  return results.violations.map(({ id, nodes }) => `${id}: ${nodes[0]!.html.slice(0, 200)}`);
}
