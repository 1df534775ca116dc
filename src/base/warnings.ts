/** Warnings to programs that gave no function to hear them. */

const said = new Set<string>();

/** Through Node's warnings, once per process for each sentence. */
export function warnOnce(message: string): void {
  if (said.has(message)) return;
  said.add(message);
  process.emitWarning(message, { type: 'AcoerWarning' });
}
