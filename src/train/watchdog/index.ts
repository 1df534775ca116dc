export { HungError, isStuck, Watchdog, type WatchdogParts } from './watchdog';
