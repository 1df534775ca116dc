/** A change of the collapse monitor's state as printed by runs and `acoer monitor`. */
import type { HealthChange } from '../../monitor';

export const healthLine = ({ step, from, to, reason }: HealthChange): string =>
  `step ${step}: ${from} -> ${to}. ${reason}`;
