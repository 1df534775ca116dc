import { parseAssignments, resolveConfig } from '../../src/config';
import { MONITOR_PRESETS, monitorSettings } from '../../src/monitor';
import {
  capAlpha,
  initialAcoerState,
  observeBatch,
  type AcoerParameters,
} from '../../src/rewards/acoer/controller';

describe('settings of the monitor', () => {
  test.each([
    ['paper', MONITOR_PRESETS.default],
    ['tiny', MONITOR_PRESETS.embedded],
    ['slide', MONITOR_PRESETS.embedded],
  ])('are those of the preset %s unless something is given', (preset, expected) => {
    expect(monitorSettings(resolveConfig([], preset).monitor)).toEqual(expected);
  });

  test('override a preset one by one, including null', () => {
    const layers = [
      { monitor: { preset: 'paper' as const } },
      parseAssignments(['monitor.warningZeroStd=null']),
    ];
    const expected = { ...MONITOR_PRESETS.paper, warningZeroStd: null };
    expect(monitorSettings(resolveConfig(layers).monitor)).toEqual(expected);
  });

  test.each([
    ['monitor.colapseSteps=3', 'monitor.colapseSteps: unknown setting; did you mean `collapseSteps`?'],
    ['monitor.collapseSteps=0', 'monitor.collapseSteps: must be at least 1, not 0'],
    ['monitor.preset=papper', 'monitor.preset: must be one of default, embedded, paper'],
  ])('%s is rejected', (assignment, message) => {
    expect(() => resolveConfig([parseAssignments([assignment])])).toThrow(message);
  });
});

describe("ACOER's alpha under a cap", () => {
  const parameters = {
    alphaInit: 0.2,
    alphaMin: 0.01,
    alphaMax: 0.5,
    alphaUp: 1.5,
    alphaDown: 0.5,
    emaSpan: 1,
    checkWindow: 1,
    accDropThreshold: 0.02,
    budgetRatio: 0.85,
    minBudget: 1,
    logScale: 5,
    initialBudget: 0,
    warmupSteps: 0,
  } satisfies AcoerParameters;
  const start = initialAcoerState(parameters, 100);
  const good = { step: 5, accuracy: 1, correctLength: 50 };

  test('never rises above pressure times alphaMax', () => {
    let state = capAlpha(parameters, start, 0.5);
    for (let i = 0; i < 10; i++) state = observeBatch(parameters, state, good);
    expect(state.alpha).toBe(0.25);
  });

  test('is lowered at once, but not below alphaMin, and a weaker cap does not lift a stronger one', () => {
    const capped = capAlpha(parameters, start, 0.001);
    expect(capped.alpha).toBe(0.01);
    expect(capAlpha(parameters, capped, 0.9).alphaCap).toBe(0.01);
  });
});
