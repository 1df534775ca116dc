/** The version in package.json. */
export function packageVersion(): string {
  // A plain require: the file lies outside what TypeScript compiles.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return (require('../package.json') as { version: string }).version;
}
