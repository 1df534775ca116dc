export { head, NO_WATCH, type Watch } from './watch';
export { HungError, isStuck, Watchdog, type WatchdogParts } from './watchdog';
