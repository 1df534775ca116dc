/** More completions than this at a time no machine holds: each is some kilobytes of ids, log-probs and text. */
export const MOST_COMPLETIONS = 1_000_000;
