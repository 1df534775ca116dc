/** Whether this Node is new enough. Runs on any: nothing here is newer than ES2015, and it imports nothing of ours. */

/** The oldest version that works, from package.json. */
function oldest(): string {
  // A plain require, because the file is outside of what TypeScript compiles.
  // eslint-disable-next-line @typescript-eslint/no-require-imports
  const { engines } = require('../../package.json') as { engines: { node: string } };
  return engines.node.replace(/^>=/, '');
}

function isOlder(version: string, than: string): boolean {
  const [a, b] = [version, than].map((text) => text.split('.').map(Number));
  const differs = [0, 1, 2].find((i) => a![i] !== b![i]);
  return differs !== undefined && a![differs]! < b![differs]!;
}

/** One sentence for a Node that is too old, or null. */
export function oldNode(version: string): string | null {
  const least = oldest();
  return isOlder(version, least) ? `Node ${version} is too old: install Node ${least} or newer.` : null;
}
