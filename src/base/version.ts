/** The version in package.json. */
export function packageVersion(): string {
  // A plain require, because the file is outside of what TypeScript compiles.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  return (require('../../package.json') as { version: string }).version;
}
