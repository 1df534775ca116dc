/** What must hold of a run's folder as a power loss has left it. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/**
 * What the program had said by the moment of the power loss.
 * @typedef {object} Said
 * @property {string} run the run's name; empty before the first
 * @property {number | null} checkpoint step of the newest checkpoint whose writing had returned
 * @property {number | null} rolledBack the step that a rollback has gone back to
 * @property {number | null} finished steps of the run, once it had ended
 */

/** @returns {Said} */
export const nothingSaid = () => ({ run: '', checkpoint: null, rolledBack: null, finished: null });

/** @param {Said} said @param {string} text of a mark @returns {Said} */
export function heard(said, text) {
  const [word, value] = text.split(' ');
  if (word === 'begin')
    return value === said.run ? { ...said, finished: null } : { ...nothingSaid(), run: value };
  if (word === 'checkpoint') return { ...said, checkpoint: Number(value) };
  // The run goes back; to which step it says when it is there.
  if (word === 'refused') return { ...said, checkpoint: 0 };
  if (word === 'rollback') return { ...said, checkpoint: Number(value), rolledBack: Number(value) };
  return { ...said, finished: Number(value) };
}

function must(holds, what) {
  if (!holds) throw new Error(what);
}

/** Without a configuration there is no run: it can be started again in the same place. */
function checkUnbegun({ run }, folder, said) {
  must(said.checkpoint === null, `no config.json, but a checkpoint of step ${said.checkpoint} was written`);
  run.createRunDirectory(folder, {}).lock.release();
}

/** metrics.jsonl has the steps up to `last` once each. */
function checkMetrics(folder, last) {
  const text = readFileSync(join(folder, 'metrics.jsonl'), 'utf8');
  const steps = text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line).step);
  const wanted = Array.from({ length: last }, (_, i) => i + 1);
  must(steps.join() === wanted.join(), `metrics.jsonl has the steps ${steps.join()} instead of 1 to ${last}`);
}

/** Every table that the program had written of the steps made so far is there and whole. */
function checkTables(folder, written, step) {
  for (const path of written) {
    const [, kind, made] = /^(completions|evaluations)\/step-(\d+)[^/]*\.parquet$/.exec(path) ?? [];
    // The last evaluation of a run follows the last checkpoint, and is repeated.
    const belongs = kind === 'completions' ? Number(made) <= step : Number(made) < step;
    if (kind === undefined || !belongs) continue;
    must(existsSync(join(folder, path)), `${path} is lost under a checkpoint of step ${step}`);
    const bytes = readFileSync(join(folder, path));
    const ends = `${bytes.toString('latin1', 0, 4)}${bytes.toString('latin1', bytes.length - 4)}`;
    must(ends === 'PAR1PAR1', `${path} is not whole under a checkpoint of step ${step}`);
  }
}

function checkFinished({ opening }, folder, reference) {
  const finished = opening.finishedRun(folder, { settings: {}, parts: {} });
  if (finished === null) return false;
  checkAdapter(folder, finished.config, reference);
  return true;
}

function checkAdapter(folder, { maxSteps }, reference) {
  const wanted = reference.adapters.get(maxSteps);
  const adapter = readFileSync(join(folder, 'final', 'adapter_model.safetensors'));
  must(
    wanted === undefined || wanted.equals(adapter),
    `the adapter in final/ is not that of the run of ${maxSteps} steps`,
  );
}

/** The run, its configuration and the checkpoint to continue from, as when it is resumed; no data is read. */
async function opened({ run, config: settings, state }, folder, said) {
  const directory = run.openRunDirectory(folder);
  run.completeRollbacks(directory);
  const warnings = [];
  const checkpoint = await run.findCheckpoint(directory, (message) => warnings.push(message));
  must(warnings.length === 0, warnings.join(' '));
  must(
    (checkpoint?.step ?? -1) >= (said.checkpoint ?? -1),
    `the checkpoint of step ${said.checkpoint} is lost`,
  );
  const config = settings.resolveConfig([directory.settings()]);
  if (checkpoint === null) run.refuseBrokenFork(directory);
  const of =
    checkpoint === null ? { step: 0, pending: null, rollbacks: 0 } : stepOf(state, checkpoint, config);
  return { directory, config, ...of };
}

function stepOf({ runStateOf }, checkpoint, config) {
  const { pending, loop } = runStateOf(checkpoint, config);
  return { step: checkpoint.step, pending, rollbacks: loop.eased.rollbacks };
}

/**
 * Opens the run as `acoer train --resume` does, up to the model.
 * @param api the package, from `loadPackage`
 * @param {string} folder
 * @param {Said} said
 * @param {{written: string[], adapters: Map<number, Buffer>}} reference what the program had written by then,
 * and the adapters it ended with by number of steps
 * @throws Error saying what does not hold
 */
export async function checkRun(api, folder, said, reference) {
  if (!existsSync(join(folder, 'config.json'))) return checkUnbegun(api, folder, said);
  if (checkFinished(api, folder, reference)) return;
  must(said.finished === null, 'the run had ended, but its summary is lost');
  let found;
  try {
    found = await opened(api, folder, said);
  } catch (error) {
    if (said.checkpoint === null && /fork again/.test(error.message)) return;
    throw error;
  }
  const { directory, config, step, pending, rollbacks } = found;
  const isOld = said.rolledBack !== null && step !== said.rolledBack && rollbacks === 0;
  must(!isOld, `the checkpoint of step ${step} is back after a rollback`);
  const written = pending === null ? step : step - 1;
  const { metricsSink, trackers } = api.sinks;
  const told = [];
  for (const sink of [
    metricsSink(directory, (message) => told.push(message)),
    ...trackers(directory, config, []).map(([, one]) => one),
  ]) {
    await sink.rewind(written);
    await sink.close();
  }
  must(told.length === 0, told.join(' '));
  checkMetrics(folder, written);
  checkTables(folder, reference.written, step);
  directory.lock.release();
  const left = readdirSync(folder, { recursive: true }).filter((name) => /(^|\/)\.(tmp|old)-/.test(name));
  must(left.length === 0, `left behind: ${left.join(', ')}`);
}

/** Resumes the run to its end; on a CPU the result is that of the run without the power loss. */
export async function checkResumed(api, folder, said, reference) {
  if (!existsSync(join(folder, 'config.json'))) return;
  if (existsSync(join(folder, 'fork.json')) && said.checkpoint === null) return;
  const run = await api.train({}, { resume: folder });
  await run.result();
  const lines = readFileSync(join(folder, 'metrics.jsonl'), 'utf8').split('\n').slice(0, -1);
  must(
    lines.length === run.config.maxSteps,
    `${lines.length} lines of metrics after ${run.config.maxSteps} steps`,
  );
  if (said.run !== 'back') checkAdapter(folder, run.config, reference);
}
