export { DEFAULT_PORT, startWatch, type WatchOptions, type WatchServer } from './server';
export { watchBeside } from './beside';
export { hasDesktop, openBrowser } from './open-browser';
