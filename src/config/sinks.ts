/** Sinks that are named in `sinks`, where all others are files. */
export const NAMED_SINKS = ['wandb'] as const;

export const isNamedSink = (name: string): boolean => (NAMED_SINKS as readonly string[]).includes(name);
