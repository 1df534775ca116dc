/** A change of the collapse monitor's state, as the run and `acoer monitor` print it. */
import type { HealthChange } from '../../monitor';

export const healthLine = ({ step, from, to, reason }: HealthChange): string =>
  `step ${step}: ${from} -> ${to}. ${reason}`;
