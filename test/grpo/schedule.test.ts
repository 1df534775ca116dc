import { scheduleFactor, warmupSteps, type ScheduleName } from '../../src/grpo/schedule';
import { loopCases } from '../helpers/loop-fixture';

interface ScheduleCase {
  type: ScheduleName;
  totalSteps: number;
  warmupRatio: number;
  warmupSteps: number;
  factors: number[];
}

test.each(loopCases<ScheduleCase>('schedules'))(
  '$type, $totalSteps steps, warm-up $warmupRatio, equals transformers',
  (c) => {
    expect(warmupSteps(c.warmupRatio, c.totalSteps)).toBe(c.warmupSteps);
    c.factors.forEach((factor, step) => expect(scheduleFactor(c, step)).toBeCloseTo(factor, 14));
  },
);
