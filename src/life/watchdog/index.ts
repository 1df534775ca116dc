export {
  commonSilence,
  passMs,
  slowest,
  type ModelSize,
  type Silences,
  type WatchdogSettings,
} from './limits';
export { HungError, isStuck, Watchdog, type WatchdogParts } from './watchdog';
