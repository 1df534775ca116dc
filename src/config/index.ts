export { configSchema, FIELD_GROUPS, type Config, type ConfigInput } from './fields';
export type { MonitorInput } from './guard-fields';
export { PHASES, type Phase } from './watchdog-fields';
export { describeConfig, describeConfigMarkdown, type FieldDescription } from './describe';
export { parseAssignments, readConfigFile } from './load';
export { didYouMean, nearestName } from './nearest';
export { defaultPreset, PRESETS, type Preset } from './presets';
export { badConfig } from './problems';
export { CONFIG_KEYS, mergeLayers, resolveConfig } from './resolve';
