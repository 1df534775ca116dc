/** A row that is not a valid problem. The caller knows its position and whether to skip it. */
export class BadRow extends Error {}
