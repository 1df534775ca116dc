/**
 * The collapse monitor: a pure state machine over lines of metrics. It knows neither the reward nor the model, only what
 * the completions of each generated batch looked like.
 */
import type { StepMetrics } from '../types';
import { isWarm, moving, NO_AVERAGES, withBatch, type Averages, type Signal } from './averages';
import { collapseReason, warningReason } from './conditions';
import type { MonitorSettings } from './settings';

export type Health = 'healthy' | 'warning' | 'collapsed';

/** Plain JSON; goes into checkpoints. */
export interface MonitorState {
  health: Health;
  averages: Averages;
  /** Steps on end that the conditions of a collapse and of a warning have held, and that neither has. */
  collapseSteps: number;
  warningSteps: number;
  calmSteps: number;
  /** Step of the last batch seen. */
  step: number;
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
  collapseSteps: 0,
  warningSteps: 0,
  calmSteps: 0,
  step: 0,
});

const LEVEL: Readonly<Record<Health, number>> = { healthy: 0, warning: 1, collapsed: 2 };

/** The state to change to, with its reason, or null to stay. */
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

/**
 * The state after one generated batch, whose metrics these are, and the change of health it brought.
 * @param groupsPerBatch prompts of the batch
 */
export function observe(
  before: MonitorState,
  metrics: StepMetrics,
  settings: MonitorSettings,
  groupsPerBatch: number,
): Observation {
  // No reference of the batch could be read: it says nothing about accuracy. A refused step may have no batch at all.
  const refused = metrics.update_applied === 0 && !('accuracy/mean' in metrics);
  if (refused || metrics['accuracy/gold_unparseable'] === 1) return { state: before, change: null };
  const averages = withBatch(before.averages, metrics, settings, groupsPerBatch);
  const step = metrics.step!;
  const steps = step - before.step;
  if (!isWarm(averages, settings, groupsPerBatch)) {
    return { state: { ...before, averages, step }, change: null };
  }
  const collapse = collapseReason(averages, settings);
  const warning = warningReason(averages, settings);
  const state: MonitorState = {
    health: before.health,
    averages,
    collapseSteps: collapse === null ? 0 : before.collapseSteps + steps,
    warningSteps: warning === null ? 0 : before.warningSteps + steps,
    calmSteps: collapse === null && warning === null ? before.calmSteps + steps : 0,
    step,
  };
  const next = nextHealth(state, settings, collapse, warning);
  if (next === null) return { state, change: null };
  const change = { step, from: before.health, to: next.health, reason: next.reason };
  return { state: { ...state, health: next.health }, change };
}

const METRIC_NAMES: Readonly<Record<Signal, string>> = {
  accuracy: 'accuracy',
  accuracySpread: 'accuracy_spread',
  thinking: 'thinking',
  thinkingCorrect: 'thinking_correct',
  thinkingWrong: 'thinking_wrong',
  spreadCorrect: 'spread_correct',
  spreadWrong: 'spread_wrong',
  allWrong: 'all_wrong',
  allCorrect: 'all_correct',
  brevity: 'brevity',
  zeroStd: 'zero_std',
  entropy: 'entropy',
  truncated: 'truncated',
  advantage: 'advantage',
};

/** The monitor's numbers of one step; `monitor/state` is 0 healthy, 1 warning, 2 collapsed. */
export function monitorMetrics({ health, averages }: MonitorState): StepMetrics {
  const metrics: StepMetrics = { 'monitor/state': LEVEL[health] };
  for (const [signal, name] of Object.entries(METRIC_NAMES)) {
    const value = moving(averages, signal as Signal);
    if (value !== null) metrics[`monitor/${name}`] = value;
  }
  if (averages.highest.accuracy !== undefined) metrics['monitor/accuracy_peak'] = averages.highest.accuracy;
  return metrics;
}
