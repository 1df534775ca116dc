/** Placeholder, to be replaced: the tables and the report of a sweep are written elsewhere. */

/** Writes the sweep's tables and its report. */
export async function writeTables(_sweepPath: string, _warn: (message: string) => void): Promise<void> {}
