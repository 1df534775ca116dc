/** The metrics that are marked as TRL's are those that TRL logs (scripts/fixtures/trl_metrics.py). */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { METRIC_FAMILIES, METRICS, trackerTag, type MetricInfo } from '../../src/base/metric-names';

const path = join(__dirname, '..', 'fixtures', 'grpo', 'trl-metrics.json');
const trl = (JSON.parse(readFileSync(path, 'utf8')) as { metrics: string[] }).metrics;

const ours: Record<string, MetricInfo> = { ...METRICS, ...METRIC_FAMILIES };

test('all that are marked, and no others', () => {
  const inTrl = (name: string) => trl.includes(name.replace(/<.*>/, '*'));
  const marked = Object.keys(ours).filter((name) => ours[name]!.trl === true);
  expect(marked).toEqual(Object.keys(ours).filter(inTrl));
  expect(marked.length).toBeGreaterThan(30);
});

test.each([
  ['reward', 'train/reward'],
  ['completions/mean_length', 'train/completions/mean_length'],
  ['rewards/format/mean', 'train/rewards/format/mean'],
  ['rewards/a/b/std', 'train/rewards/a/b/std'],
  ['thinking/mean', 'thinking/mean'],
  ['eval/greedy_accuracy', 'eval/greedy_accuracy'],
  ['counting/batches', 'counting/batches'],
  ['toString', 'toString'],
])('%s is %s in a tracker', (name, tag) => {
  expect(trackerTag(name)).toBe(tag);
});
