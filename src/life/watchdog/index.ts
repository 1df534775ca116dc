export * from './limits';
export * from './watchdog';
