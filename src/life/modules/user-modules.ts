/** The user's code that a configuration names, and its SHA-256, also of what it imports by a relative path. */
import { statSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { servedBy, type Config, type ConfigInput } from '../../config';
import { isJavaScriptFile } from '../../config/pattern';
import { badUsage, whyUnreadable } from '../../base/errors';
import { isJudgeFile } from '../../judges';
import type { Fingerprints } from '../../models';
import { readRegularFile } from '../../base/regular-file';
import { sha256 } from '../../base/sha256';

/** A module that a configuration names. */
export interface UserModule {
  kind: 'judge' | 'reward' | 'sampler' | 'sink' | 'server';
  /** A reward's name. */
  name?: string;
  /** Of a sink that is named, such as wandb, its name; of a server its address. */
  path: string;
}

export const judgeModule = ({ judge }: Pick<Config, 'judge'>): UserModule[] =>
  isJudgeFile(judge) ? [{ kind: 'judge', path: judge }] : [];

export const sinkModules = ({ sinks }: Pick<Config, 'sinks'>): UserModule[] =>
  sinks.map((path) => ({ kind: 'sink' as const, path }));

/** The file of the sampler; none for another. */
export function samplerFile({ sampler = '' }: Pick<ConfigInput, 'sampler'>): string[] {
  const name = typeof sampler === 'string' ? sampler : 'name' in sampler ? sampler.name : '';
  return isJavaScriptFile(name) ? [name] : [];
}

/** Servers that are asked for completions: they see the prompts, and the run learns from what they answer. */
const serverModules = (config: Pick<Config, 'sampler'>): UserModule[] =>
  (servedBy(config)?.servers ?? []).map((path) => ({ kind: 'server' as const, path }));

export const samplerModule = (config: Pick<Config, 'sampler'>): UserModule[] =>
  samplerFile(config).map((path) => ({ kind: 'sampler' as const, path }));

/** The modules of the rewards in use. */
export function usedRewards({
  reward,
  rewardModules,
}: Pick<Config, 'reward' | 'rewardModules'>): UserModule[] {
  const names = typeof reward === 'string' ? [reward] : reward.map((entry) => entry.name);
  return Object.entries(rewardModules)
    .filter(([name]) => names.includes(name))
    .map(([name, path]) => ({ kind: 'reward' as const, name, path }));
}

/** The modules that a run under `config` loads. */
export const modulesOf = (
  config: Pick<Config, 'judge' | 'sampler' | 'sinks' | 'reward' | 'rewardModules'>,
): UserModule[] => [
  ...judgeModule(config),
  ...usedRewards(config),
  ...samplerModule(config),
  ...serverModules(config),
  ...sinkModules(config),
];

/** The files and servers that settings of the user name, whether they are used or not. */
export function filesNamed({ judge, sampler, sinks = [], rewardModules = {} }: ConfigInput): string[] {
  const judged = judge === undefined ? [] : [judge];
  const servers = servedBy({ sampler })?.servers ?? [];
  return [...judged, ...samplerFile({ sampler }), ...servers, ...sinks, ...Object.values(rewardModules)];
}

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
      throw badUsage(`Cannot read the module ${path}: ${whyUnreadable(cause)}`, cause);
    });
    found.set(path, content);
    if (/\.[cm]?js$/.test(path)) open.push(...importedFiles(path, content.toString('utf8')));
  }
  return found;
}

/**
 * By a reward's name, or `the judge`; an imported file by that and its path from the module, so that modules can be
 * moved. Packages, computed paths, and what a module reads or starts are not covered.
 */
export async function moduleFingerprints(modules: readonly UserModule[]): Promise<Fingerprints> {
  const found: Record<string, string> = {};
  for (const { kind, name = `the ${kind}`, path: file } of modules) {
    const module = resolve(file);
    for (const [path, content] of await filesOf(module)) {
      const key = path === module ? name : `${name}: ${relative(dirname(module), path)}`;
      found[key] = sha256(content);
    }
  }
  return found;
}
