/** What happened at single steps of a run. */
import type { Rollback } from '../run';
import { HEALTH, type StepMetrics } from '../base/types';
import type { Mark } from './shown';

/**
 * Changes of the monitor's state, refused steps and rollbacks, in step order. A rollback is marked at the step
 * it went back to, where the lines that follow join.
 */
export function marksOf(lines: readonly StepMetrics[], rollbacks: readonly Rollback[]): Mark[] {
  const marks = rollbacks.map(({ number, from, to, reason }): Mark => {
    return { step: to, kind: 'rollback', text: `Rollback ${number}, from step ${from} to ${to}. ${reason}` };
  });
  let before = 0;
  for (const line of lines) {
    const step = line.step!;
    const state = line['monitor/state'] ?? before;
    if (state !== before) {
      const [from, to] = [HEALTH[before] ?? 'healthy', HEALTH[state] ?? 'healthy'];
      marks.push({ step, kind: to, text: `Step ${step}: the monitor went from ${from} to ${to}.` });
    }
    before = state;
    if (line.update_applied === 0) {
      marks.push({ step, kind: 'refused', text: `Step ${step} was refused: a number was not finite.` });
    }
  }
  return marks.sort((a, b) => a.step - b.step);
}
