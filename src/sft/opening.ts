/** Supervised fine-tuning as a method of a run: its settings and data, new or as a run has them. */
import { currentSettings, mergeLayers, type ConfigInput, type Phase } from '../config';
import { badUsage } from '../base/errors';
import type { SftSummary } from '../life/events';
import type { Asked, Method } from '../life/method';
import { sinkModules } from '../life/modules/user-modules';
import { withAbsoluteNames, withLastingModel, withStoredCommits } from '../life/names';
import { finishedSettings } from '../life/opening';
import { trackerTag } from '../base/metric-names';
import { isSupervised, readRunDirectory, type RunDirectory } from '../run';
import type { Row } from '../base/types';
import { resolveSft, type SftConfig, type SftInput } from './config';
import { openSftInputs, withPinned, type SftInputs, type SftOpenOptions } from './inputs';
import { CHANGEABLE, checkIdentity } from './state';
import { commonSilence, passMs, type Silences } from '../life/watchdog';

/** Phases that are made of passes over examples. */
const PASSES: readonly Phase[] = ['train', 'baseEvaluation', 'evaluation'];

export const silencesOf =
  (config: SftConfig): Silences =>
  (phase, model) => {
    const common = commonSilence(phase, config);
    if (common !== null) return common;
    // Progress is shown after each pass; an example longer than one has a pass of its own.
    if (model === null || !PASSES.includes(phase)) return 0;
    const longest = Math.min(config.maxLength ?? model.maxPositions, model.maxPositions);
    return passMs(model, Math.max(config.microBatchTokens, longest));
  };

export interface SftAsked extends Asked {
  settings: SftInput;
  /** Given instead of a name. */
  rows?: readonly Row[];
  evalRows?: readonly Row[];
  fetching: SftOpenOptions;
}

/** The stored settings of a supervised run. @throws BAD_CONFIG for a run of another kind */
function storedSettings(directory: RunDirectory): SftConfig {
  const settings = directory.settings();
  if (isSupervised(settings)) return resolveSft([settings]);
  const { path } = directory;
  throw badUsage(`${path} is a run of acoer train; resume it with: acoer train --resume ${path}`);
}

function resolveOver(directory: RunDirectory, { settings }: Pick<SftAsked, 'settings'>) {
  const stored = storedSettings(directory);
  const layers = [stored, settings] as ConfigInput[];
  const asked = withAbsoluteNames(resolveSft([mergeLayers(layers)]));
  return { stored, wanted: withStoredCommits(asked, stored) };
}

export const SFT: Method<SftConfig, SftInputs, SftAsked> = {
  command: 'sft',
  changeable: CHANGEABLE,
  resolve: ({ settings }) => resolveSft([settings]),
  resolveOver,
  resolveStored: ({ state }) =>
    resolveSft([currentSettings((state as { config: Record<string, unknown> }).config)]),
  comparesFiles: () => true,
  modules: sinkModules,
  named: ({ settings }) => settings.sinks ?? [],
  lasting: (config, { fetching }) => withLastingModel(withAbsoluteNames(config), fetching),
  openInputs: (config, { rows, evalRows, fetching }) => openSftInputs(config, { rows, evalRows }, fetching),
  closeInputs: () => Promise.resolve(),
  checkInputs: (_, checkpoint, { identity }) => checkIdentity(checkpoint, identity),
  pinned: (config, inputs, asked) => withPinned(config, inputs, asked),
  nameOf: ({ name }) => name ?? 'sft',
  silences: silencesOf,
  judgedBy: ({ evalExamples }) => [...(evalExamples > 0 ? ['final/loss'] : []), trackerTag('loss')],
};

/** The summary of a finished run; null: there are steps left. */
export function finishedSft(path: string, asked: SftAsked): SftSummary | null {
  if (finishedSettings(SFT, path, asked) === null) return null;
  const directory = readRunDirectory(path);
  return directory.readJson(directory.summary()) as SftSummary;
}
