/** What completions are expected to have in tokens, from those before them. */
import { mean } from '../base/statistics';
import type { Group, Prompt } from '../base/types';

/** It decides who samples what, never what. */
export class ExpectedLengths {
  private readonly ofProblem = new Map<string, number>();
  private readonly ofLevel = new Map<string, number>();
  private ofAll = 1;

  observe(groups: readonly Group[]): void {
    const lengths = groups.map(({ rollouts }) => mean(rollouts.map(({ totalTokens }) => totalTokens)));
    const levels = new Map<string, number[]>();
    groups.forEach(({ prompt: { problem } }, i) => {
      this.ofProblem.set(problem.id, lengths[i]!);
      if (problem.level === null) return;
      levels.set(problem.level, [...(levels.get(problem.level) ?? []), lengths[i]!]);
    });
    for (const [level, own] of levels) this.ofLevel.set(level, mean(own));
    this.ofAll = mean(lengths);
  }

  /** The mean of the problem's completions the last time, else of its level, else of the last batch; 1: of none. */
  of({ problem }: Pick<Prompt, 'problem'>): number {
    const ofLevel = problem.level === null ? undefined : this.ofLevel.get(problem.level);
    return this.ofProblem.get(problem.id) ?? ofLevel ?? this.ofAll;
  }
}
