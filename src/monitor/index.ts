export { bareContext, type MonitorContext } from './context';
export {
  initialMonitorState,
  monitorMetrics,
  observe,
  type HealthChange,
  type MonitorState,
  type Observation,
} from './monitor';
export { EVALUATED, READ } from './names';
export type { MonitorSettings } from '../config';
export { MONITOR_PRESETS, monitorSettings } from './settings';
