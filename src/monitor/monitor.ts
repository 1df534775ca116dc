/**
 * The collapse monitor: a pure state machine over lines of metrics. It does not know the reward or the model,
 * only the statistics of each generated batch and the results of evaluations.
 */
import type { KnownMetrics } from '../base/metric-names';
import { HEALTH, type Health } from '../base/types';
import { accuracyFalls, noAccuracy, withAccuracy, type AccuracyRecord } from './accuracy';
import { isWarm, moving, NO_AVERAGES, signalEntries, withBatch, type Averages } from './averages';
import { collapseReason, warningReason, type Known } from './conditions';
import type { MonitorContext } from './context';
import { NO_EVALUATIONS, withEvaluation, type EvaluationRecord } from './evaluations';
import { READ } from './names';
import type { MonitorSettings } from '../config';

/** Plain JSON; goes into checkpoints. */
export interface MonitorState {
  health: Health;
  averages: Averages;
  accuracy: AccuracyRecord;
  evaluations: EvaluationRecord;
  /** Consecutive steps for which the conditions of a collapse, those of a warning, and neither have held. */
  collapseSteps: number;
  warningSteps: number;
  calmSteps: number;
  /** Step of the last line seen. */
  step: number;
  /** `num_tokens` of the last batch seen, the same for all its updates; null if not known. */
  tokens: number | null;
}

export interface HealthChange {
  step: number;
  from: Health;
  to: Health;
  /** One sentence. */
  reason: string;
}

export interface Observation {
  state: MonitorState;
  change: HealthChange | null;
}

export const initialMonitorState = (): MonitorState => ({
  health: 'healthy',
  averages: NO_AVERAGES,
  accuracy: noAccuracy(),
  evaluations: NO_EVALUATIONS,
  collapseSteps: 0,
  warningSteps: 0,
  calmSteps: 0,
  step: 0,
  tokens: null,
});

/** The state to change to, with the reason, or null for no change. */
function nextHealth(
  state: MonitorState,
  settings: MonitorSettings,
  collapse: string | null,
  warning: string | null,
): { health: Health; reason: string } | null {
  if (collapse !== null && state.collapseSteps >= settings.collapseSteps) {
    return state.health === 'collapsed' ? null : { health: 'collapsed', reason: collapse };
  }
  if (state.health === 'healthy' && warning !== null && state.warningSteps >= settings.warningSteps) {
    return { health: 'warning', reason: warning };
  }
  if (state.health !== 'healthy' && state.calmSteps >= settings.recoverySteps) {
    const reason = `No condition of a warning or a collapse has held for ${state.calmSteps} steps.`;
    return { health: 'healthy', reason };
  }
  return null;
}

/** The number of groups with parseable references in this line's batch; 0 if the line has no new batch. */
function newGroups(before: MonitorState, metrics: KnownMetrics, context: MonitorContext): number {
  const { [READ.applied]: applied, [READ.unreadable]: unreadable = 0, [READ.tokens]: tokens } = metrics;
  // A skipped step may have no batch at all.
  if (applied === 0 && !(READ.accuracy in metrics)) return 0;
  if (context.updatesPerBatch > 1 && tokens !== undefined && tokens === before.tokens) return 0;
  return Math.round(context.groupsPerBatch * (1 - unreadable));
}

/** The state updated with the line, before it is judged. */
function withLine(before: MonitorState, metrics: KnownMetrics, known: Omit<Known, 'averages' | 'falls'>) {
  const groups = newGroups(before, metrics, known.context);
  const averages =
    groups === 0 ? before.averages : withBatch(before.averages, metrics, known.settings, groups);
  const accuracy = groups === 0 ? before.accuracy : withAccuracy(before.accuracy, metrics, groups);
  const evaluations = withEvaluation(before.evaluations, metrics, { ...known, averages });
  const tokens = groups === 0 ? before.tokens : (metrics[READ.tokens] ?? null);
  return { ...before, averages, accuracy, evaluations, tokens, step: metrics.step! };
}

/** The state after one more line of metrics, and the change of health. One seen before changes nothing. */
export function observe(
  before: MonitorState,
  metrics: KnownMetrics,
  settings: MonitorSettings,
  context: MonitorContext,
): Observation {
  const steps = metrics.step! - before.step;
  if (steps <= 0) return { state: before, change: null };
  const seen = withLine(before, metrics, { settings, context });
  if (!isWarm(seen.averages, settings)) return { state: seen, change: null };
  const falls = accuracyFalls(seen.accuracy, settings);
  const known: Known = { averages: seen.averages, falls, settings, context };
  const collapse = seen.evaluations.collapse ?? collapseReason(known);
  const warning = warningReason(known);
  const state: MonitorState = {
    ...seen,
    collapseSteps: collapse === null ? 0 : before.collapseSteps + steps,
    warningSteps: warning === null ? 0 : before.warningSteps + steps,
    calmSteps: collapse === null && warning === null ? before.calmSteps + steps : 0,
  };
  const next = nextHealth(state, settings, collapse, warning);
  if (next === null) return { state, change: null };
  const change = { step: state.step, from: before.health, to: next.health, reason: next.reason };
  return { state: { ...state, health: next.health }, change };
}

/** The monitor's metrics of one step; `monitor/state` is 0 healthy, 1 warning, 2 collapsed. */
export function monitorMetrics({ health, averages }: MonitorState): KnownMetrics {
  const metrics: KnownMetrics = { 'monitor/state': HEALTH.indexOf(health) };
  for (const [signal, { as: name }] of signalEntries()) {
    const value = moving(averages, signal);
    if (name !== undefined && value !== null) metrics[name] = value;
  }
  if (averages.highest.accuracy !== undefined) metrics['monitor/accuracy_peak'] = averages.highest.accuracy;
  return metrics;
}
