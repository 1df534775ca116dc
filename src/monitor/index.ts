export {
  initialMonitorState,
  monitorMetrics,
  observe,
  type Health,
  type HealthChange,
  type MonitorState,
  type Observation,
} from './monitor';
export { MONITOR_PRESETS, monitorSettings, type MonitorSettings } from './settings';
