/** An empty project with the packed package installed, as a user would do it. */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

import { builtCli, ROOT } from './cli';

interface Lock {
  packages: Record<string, { dev?: boolean } & Record<string, unknown>>;
}

export interface ProjectResult {
  code: number | null;
  stdout: string;
  stderr: string;
}

function pack(to: string): string {
  builtCli();
  const out = execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', to], {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [{ filename }] = JSON.parse(out) as [{ filename: string }];
  return join(to, filename);
}

/**
 * Writes package.json and a lock file with the tarball and, from this repository's own lock, its
 * dependencies. npm's cache is then enough, and no registry is asked for versions.
 */
function writeProject(directory: string, tarball: string): void {
  const lock = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8')) as Lock;
  const { '': root, ...others } = lock.packages;
  const needed = Object.entries(others).filter(([, entry]) => entry.dev !== true);
  const spec = `file:${tarball}`;
  const project = { name: 'embedding', version: '1.0.0', private: true, dependencies: { acoer: spec } };
  const { version, dependencies, bin, engines } = root!;
  const integrity = `sha512-${createHash('sha512').update(readFileSync(tarball)).digest('base64')}`;
  const acoer = { version, resolved: spec, integrity, dependencies, bin, engines };
  const packages = { '': project, 'node_modules/acoer': acoer, ...Object.fromEntries(needed) };
  writeFileSync(join(directory, 'package.json'), JSON.stringify(project));
  writeFileSync(join(directory, 'package-lock.json'), JSON.stringify({ lockfileVersion: 3, packages }));
}

/** Without registry and cache: unpacks the tarball and links its dependencies to this repository's. */
function unpackBesideLinks(directory: string, tarball: string): void {
  const modules = join(directory, 'node_modules');
  rmSync(modules, { recursive: true, force: true });
  const own = join(modules, 'acoer');
  mkdirSync(own, { recursive: true });
  execFileSync('tar', ['-xzf', tarball, '-C', own, '--strip-components=1']);
  const { dependencies } = JSON.parse(readFileSync(join(own, 'package.json'), 'utf8')) as {
    dependencies: Record<string, string>;
  };
  for (const name of Object.keys(dependencies)) {
    const link = join(modules, name);
    mkdirSync(dirname(link), { recursive: true });
    symlinkSync(join(ROOT, 'node_modules', name), link);
  }
}

export class EmbeddingProject {
  readonly directory = mkdtempSync(join(tmpdir(), 'acoer-embedding-'));
  readonly package = join(this.directory, 'node_modules', 'acoer');

  /** Packs and installs, without install scripts, as npm does for dependencies. */
  install(): void {
    const tarball = pack(this.directory);
    writeProject(this.directory, tarball);
    const flags = ['ci', '--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund'];
    const npm = spawnSync('npm', flags, { cwd: this.directory, encoding: 'utf8', timeout: 300_000 });
    if (npm.status === 0) return;
    console.warn(`npm ci could not fetch the dependencies, so they are linked:\n${npm.stderr}`);
    unpackBesideLinks(this.directory, tarball);
  }

  /** Copies what `npx acoer setup` would build from this repository's build. */
  addBuiltAddon(): void {
    const release = join('build', 'Release');
    mkdirSync(join(this.package, release), { recursive: true });
    cpSync(join(ROOT, release), join(this.package, release), { recursive: true });
  }

  write(name: string, text: string): string {
    const path = join(this.directory, name);
    writeFileSync(path, text);
    return path;
  }

  run(command: string, ...words: string[]): ProjectResult {
    const { status, stdout, stderr } = spawnSync(command, words, { cwd: this.directory, encoding: 'utf8' });
    return { code: status, stdout, stderr };
  }

  /** Runs a program in the project and returns the JSON on the last line it prints. */
  program<T>(name: string, text: string): T {
    const { code, stdout, stderr } = this.run(process.execPath, this.write(name, text));
    if (code !== 0) throw new Error(`${name} ended with ${code}:\n${stderr}${stdout}`);
    return JSON.parse(stdout.trim().split('\n').at(-1)!) as T;
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}
