/** SHA-256 of the user's code: each module of rewards, judge and sampler, and what it imports by a relative path. */
import { createHash } from 'node:crypto';
import { statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import type { Config, ConfigInput } from '../../config';
import { isJavaScriptFile } from '../../config/pattern';
import { AcoerError, whyUnreadable } from '../../base/errors';
import { isJudgeFile } from '../../judges';
import type { Fingerprints } from '../../models';
import { readRegularFile } from '../../base/regular-file';

/** A bundle of modules has some megabytes. */
const MAX_MODULE_BYTES = 2 ** 27;

/** A path written out in `import './x'`, `export ... from './x'`, `import('./x')` or `require('./x')`. */
const RELATIVE_IMPORT = /\b(?:import|from|require)\s*\(?\s*(['"])(\.{1,2}\/[^'"\n]+)\1/g;

/** What Node adds to such a path in CommonJS. */
const ENDINGS = ['', '.js', '.json', '.node', '/index.js', '/index.json', '/index.node'];

const isFile = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isFile() === true;

function importedFiles(path: string, source: string): string[] {
  const paths = [...source.matchAll(RELATIVE_IMPORT)].map((match) => resolve(dirname(path), match[2]!));
  return paths.flatMap((wanted) => ENDINGS.map((end) => wanted + end).find(isFile) ?? []);
}

/** `module` and everything that it imports by relative paths, directly or not. */
async function filesOf(module: string): Promise<Map<string, Buffer>> {
  const found = new Map<string, Buffer>();
  const open = [module];
  for (let path = open.pop(); path !== undefined; path = open.pop()) {
    if (found.has(path)) continue;
    const content = await readRegularFile(path, MAX_MODULE_BYTES).catch((cause: unknown) => {
      throw new AcoerError('BAD_CONFIG', `Cannot read the module ${path}: ${whyUnreadable(cause)}`, {
        cause,
      });
    });
    found.set(path, content);
    if (/\.[cm]?js$/.test(path)) open.push(...importedFiles(path, content.toString('utf8')));
  }
  return found;
}

/**
 * By `name`; for an imported file by that and its path from the module, so that modules can be moved.
 * Packages, computed paths, and what a module reads or starts are not covered.
 */
export async function moduleFingerprints(name: string, file: string): Promise<Fingerprints> {
  const found: Record<string, string> = {};
  const module = resolve(file);
  for (const [path, content] of await filesOf(module)) {
    const key = path === module ? name : `${name}: ${relative(dirname(module), path)}`;
    found[key] = createHash('sha256').update(content).digest('hex');
  }
  return found;
}

/** Empty without a judge in a file. */
export const judgeFingerprints = async ({ judge }: Pick<Config, 'judge'>): Promise<Fingerprints> =>
  isJudgeFile(judge) ? moduleFingerprints('the judge', judge) : {};

/** The file of the sampler; none for another. */
export function samplerFile({ sampler = '' }: Pick<ConfigInput, 'sampler'>): string[] {
  const name = typeof sampler === 'string' ? sampler : sampler.name;
  return isJavaScriptFile(name) ? [name] : [];
}

/** Empty without a sampler in a file. */
export async function samplerFingerprints(config: Pick<Config, 'sampler'>): Promise<Fingerprints> {
  const [file] = samplerFile(config);
  return file === undefined ? {} : moduleFingerprints('the sampler', file);
}

/** The modules of the rewards in use, by name. */
export function usedRewardModules({
  reward,
  rewardModules,
}: Pick<Config, 'reward' | 'rewardModules'>): Record<string, string> {
  const names = typeof reward === 'string' ? [reward] : reward.map((entry) => entry.name);
  return Object.fromEntries(Object.entries(rewardModules).filter(([name]) => names.includes(name)));
}

/** By the name of the reward. */
export async function rewardFingerprints(config: Config): Promise<Fingerprints> {
  const found: Record<string, string> = {};
  for (const [name, path] of Object.entries(usedRewardModules(config))) {
    Object.assign(found, await moduleFingerprints(name, path));
  }
  return found;
}
