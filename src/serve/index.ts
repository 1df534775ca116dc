export { DEFAULT_PORT, DEFAULT_WAITING, type ModelServer, type ServeOptions, startServer } from './server';
