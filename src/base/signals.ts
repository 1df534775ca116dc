/** The signals that ask a process to end. */

/**
 * Ctrl-C and `kill`, and what terminals and schedulers send as a warning: a closed terminal (HUP), Ctrl-\ (QUIT),
 * Slurm and others by their configuration (USR1, USR2), a limit on processor time (XCPU), a timer (ALRM).
 */
export const STOP_SIGNALS = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGXCPU',
  'SIGALRM',
] as const;

/**
 * For a process that ends with the one that started it: a terminal or a scheduler signals every process of a command,
 * and only the first knows what is left to do. At SIGUSR1, Node would open a debugger's port.
 */
export function leaveSignalsToParent(): void {
  for (const name of STOP_SIGNALS) process.on(name, () => undefined);
}
