/** Runs scripts in a separate Node process with the real addon, for whatever ends or could end a process. */
import { spawn } from 'node:child_process';
import { resolve } from 'node:path';

import { openModelFiles } from '../../src/models';

export const ADDON = resolve(__dirname, '..', '..', 'build', 'Release', 'acoer.node');

/**
 * `load()` returns an engine, a new one or the one given, with the model described by argv[1]; `endless(e, m)` starts a call of many
 * seconds.
 */
const PRELUDE = `
  process.env.OMP_WAIT_POLICY ??= 'passive';
  const addon = require(${JSON.stringify(ADDON)});
  const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0, repetitionPenalty: 1 };
  const described = JSON.parse(process.argv[1]);
  async function load(engine = new addon.Engine({ device: 'cpu', threads: 1 })) {
    const { spec, weights: { files, tensors } } = described;
    const opened = files.map(({ path }) => ({ path, descriptor: require('node:fs').openSync(path) }));
    const { model } = await engine.loadModel({ spec, weights: { files: opened, tensors }, dtype: spec.dtype, job: 1 });
    return { engine, model };
  }
  function endless({ engine, model }, onSequence = () => {}, onProgress) {
    const request = { promptIds: Int32Array.of(1, 2), numSamples: 4, firstSample: 0, firstToken: 0, group: 0, seed: 1n, maxNewTokens: 3000,
      stopIds: new Int32Array(), sampling, policy: null };
    const args = { model, requests: [request], maxSlots: 8, kvBytes: 0, kvCacheDtype: 'auto', numSpeculativeTokens: 0, job: 2, progressEveryMs: 0 };
    return engine.generate(args, onSequence, onProgress);
  }
`;

export interface ChildResult {
  code: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
  elapsedMs: number;
}

export interface ChildOptions {
  model: string;
  /** Sent once the script has printed a line. */
  kill?: NodeJS.Signals;
  nodeArguments?: string[];
}

/** Runs `script` (CommonJS, inside an async function) and waits for it to end. */
export async function runChild(
  script: string,
  { model, kill, nodeArguments = [] }: ChildOptions,
): Promise<ChildResult> {
  const source = `${PRELUDE}\n(async () => {\n${script}\n})();`;
  await using files = await openModelFiles(model);
  const described = JSON.stringify({ spec: files.spec, weights: files.weights });
  const start = performance.now();
  // The script does not get Jest's own NODE_OPTIONS.
  const env = { ...process.env, NODE_OPTIONS: '' };
  const child = spawn(process.execPath, [...nodeArguments, '-e', source, described], { env });
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
    if (kill !== undefined && stdout.includes('\n')) child.kill(kill);
  });
  child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
  return await new Promise((done, fail) => {
    child.on('error', fail);
    child.on('close', (code, signal) =>
      done({ code, signal, stdout, stderr, elapsedMs: performance.now() - start }),
    );
  });
}
