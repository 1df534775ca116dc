import type { LossSettings } from './types';

/** Loss settings with TRL 1.13's defaults for all that is not given; its `loss_type` is dapo, with no KL term. */
export function trlLoss(settings: Partial<LossSettings> & Pick<LossSettings, 'normalizer'>): LossSettings {
  return {
    type: 'dapo',
    level: 'token',
    epsilonLow: 0.2,
    epsilonHigh: 0.2,
    delta: null,
    beta: 0,
    klBiasCorrection: true,
    temperature: 1,
    sapoTemperaturePos: 1,
    sapoTemperatureNeg: 1.05,
    vespoKPos: 2,
    vespoLambdaPos: 3,
    vespoKNeg: 3,
    vespoLambdaNeg: 2,
    ...settings,
  };
}
