#!/usr/bin/env node
/**
 * Writes the files generated from the program's own tables; run it after changing a setting or a metric.
 *
 *   node scripts/generate-docs.mjs [--check]   (--check: write nothing, exit with 1 if a file is out of date)
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { format, resolveConfig } from 'prettier';

const require = createRequire(import.meta.url);
const { source } = require('./docs/sources.cjs');
const { configSchemaFile } = require('./docs/config-schema.cjs');
const { lossesPage } = require('./docs/losses-page.cjs');
const { metricsPage } = require('./docs/metrics-page.cjs');
const { rewardsPage } = require('./docs/rewards-page.cjs');
const { sftTable } = require('./docs/sft-table.cjs');
const { settingsPage } = require('./docs/settings-page.cjs');
const { trlTable } = require('./docs/trl-table.cjs');

const root = join(import.meta.dirname, '..');
const check = process.argv.includes('--check');

const read = (path) => readFileSync(join(root, path), 'utf8');

/** File contents by path. */
const files = {
  'docs/losses.md': () => lossesPage(source('losses/registry'), read('docs/losses.md')),
  'docs/metrics.md': () => metricsPage(source('base/metric-names')),
  'docs/from-trl.md': () =>
    trlTable(
      source('config/index'),
      JSON.parse(read('test/fixtures/trl-settings.json')),
      read('docs/from-trl.md'),
    ),
  'docs/rewards.md': () => rewardsPage(source('rewards/built-in'), read('docs/rewards.md')),
  'docs/sft.md': () => sftTable(source('sft/config'), read('docs/sft.md')),
  'docs/settings.md': () => settingsPage(source('config/index')),
  'configs/schema.json': () =>
    configSchemaFile(source('config/index'), source('rewards/index').listRewards()),
};

let stale = 0;
for (const [path, text] of Object.entries(files)) {
  const file = join(root, path);
  const wanted = await format(text(), { ...(await resolveConfig(file)), filepath: file });
  let found = null;
  try {
    found = readFileSync(file, 'utf8');
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  if (found === wanted) continue;
  stale++;
  if (!check) writeFileSync(file, wanted);
  console.log(check ? `${path} is out of date; run npm run docs` : `wrote ${path}`);
}
if (check && stale > 0) process.exitCode = 1;
