/** What `--with-run` publishes of a run: its numbers, and the settings that are numbers and names of acoer's own. */
import { JUDGES } from '../judges';
import { isKnownMetric } from '../base/metric-names';
import { isRecord, type JsonRecord, parsedJson } from '../base/json';
import { isKnownName } from '../data';
import { looksLikeHubId, splitRevision } from '../hub';
import { isBuiltInLoss } from '../losses/registry';
import { isBuiltIn } from '../rewards/registry';
import { isWords } from './fields';

/** A name of a metric with that of a reward in it. */
const REWARD_METRIC = /^rewards\/(.+)\/(?:mean|std)$/;

function isPublicMetric(name: string): boolean {
  const reward = REWARD_METRIC.exec(name)?.[1];
  return reward === undefined ? isKnownMetric(name) : isBuiltIn(reward);
}

/** The lines of metrics.jsonl with the numbers that acoer itself names; a line that is cut off is left out. */
export function publishedMetrics(text: string): string {
  return text
    .split('\n')
    .flatMap((line): string[] => {
      const numbers = lineOf(line);
      return numbers === null ? [] : [`${JSON.stringify(numbers)}\n`];
    })
    .join('');
}

function lineOf(line: string): JsonRecord | null {
  const record = parsedJson(line);
  if (!isRecord(record)) return null;
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => typeof value === 'number' && isPublicMetric(name)),
  );
}

const isHubName = (value: unknown): boolean => typeof value === 'string' && looksLikeHubId(value);

const isDataName = (value: unknown): boolean =>
  typeof value === 'string' &&
  value.split('+').every((part) => {
    const { id } = splitRevision(part.trim());
    return isKnownName(id) || isHubName(part.trim());
  });

const isReward = (value: unknown): boolean =>
  typeof value === 'string'
    ? isBuiltIn(value)
    : Array.isArray(value) &&
      value.every((part) => isRecord(part) && isReward(part.name) && isParameters(part.params ?? {}));

/** Parameters are numbers and switches. */
const isParameters = (value: unknown): boolean =>
  isRecord(value) &&
  Object.values(value).every((inner) => typeof inner === 'number' || typeof inner === 'boolean');

const ofOwn = (isOwn: (name: string) => boolean) => (value: unknown) =>
  isRecord(value) && Object.entries(value).every(([name, inner]) => isOwn(name) && isParameters(inner));

const isLoss = (value: unknown): boolean => typeof value === 'string' && isBuiltInLoss(value);

/** Settings that are not numbers or switches, and when they are public. */
const PUBLIC: Readonly<Record<string, (value: unknown) => boolean>> = {
  model: (value) => value === 'tiny' || isHubName(value),
  dataset: isDataName,
  evalDataset: isDataName,
  reward: isReward,
  rewardParams: ofOwn(isBuiltIn),
  lossType: isLoss,
  lossParams: ofOwn(isBuiltInLoss),
  judge: (value) => JUDGES.some(({ name }) => name === value),
  sampler: (value) => value === 'engine',
  ...Object.fromEntries(
    [
      ...['formatRule', 'answerFrom', 'multiObjectiveAggregation', 'scaleRewards', 'groupFilter', 'dtype'],
      'quantization',
      ...['importanceSamplingLevel', 'importanceSamplingCorrection', 'lrSchedulerType', 'targetModules'],
      ...['kvCacheDtype'],
      ...['monitor', 'onCollapse', 'nonFinitePolicy', 'onHang'],
    ].map((name) => [name, isWords]),
  ),
};

/** Settings of the machine, of no use to others. */
const OF_MACHINE = new Set(['threads', 'kvBytes', 'memoryLimitBytes', 'maxSlots', 'numSpeculativeTokens']);

const isSetting = (name: string, value: unknown): boolean => {
  if (!/^[a-z][A-Za-z0-9]*$/.test(name) || OF_MACHINE.has(name)) return false;
  if (typeof value === 'number' || typeof value === 'boolean') return true;
  return Object.hasOwn(PUBLIC, name) && (value === null || PUBLIC[name]!(value));
};

/** The settings that are published, and the names of those that hold something else. */
export function publishedSettings(settings: object): { kept: JsonRecord; leftOut: string[] } {
  const entries = Object.entries(settings);
  const kept = entries.filter(([name, value]) => isSetting(name, value));
  const isEmpty = (value: unknown) =>
    value === null || (typeof value === 'object' && Object.keys(value).length === 0);
  const leftOut = entries.filter(([name, value]) => !isSetting(name, value) && !isEmpty(value));
  return { kept: Object.fromEntries(kept), leftOut: leftOut.map(([name]) => name) };
}
