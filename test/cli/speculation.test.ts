/** `--num-speculative-tokens` of the commands that decode. */
import { Command } from 'commander';
import { define as bench } from '../../src/cli/bench';
import { define as chat } from '../../src/cli/chat';
import type { CommandModule } from '../../src/cli/command';
import { define as evaluate } from '../../src/cli/eval';
import { define as generate } from '../../src/cli/generate';
import { define as serve } from '../../src/cli/serve';

const COMMANDS: [string, CommandModule['define'], string[]][] = [
  ['bench', bench, ['rollout']],
  ['chat', chat, ['tiny']],
  ['eval', evaluate, []],
  ['generate', generate, []],
  ['serve', serve, ['tiny']],
];

describe.each(COMMANDS)('acoer %s', (name, define, words) => {
  const parsed = (...more: string[]): unknown => {
    const command = new Command(name).exitOverride().configureOutput({ writeErr: () => undefined });
    define(command);
    command.action(() => undefined);
    command.parse([...words, ...more], { from: 'user' });
    return command.opts()['numSpeculativeTokens'];
  };

  test('none unless asked for, and at most 16', () => {
    expect(parsed()).toBe(0);
    expect(parsed('--num-speculative-tokens', '0')).toBe(0);
    expect(parsed('--num-speculative-tokens', '16')).toBe(16);
  });

  test.each(['-1', '17', '1.5', 'many'])('%s is refused', (tokens) => {
    expect(() => parsed(`--num-speculative-tokens=${tokens}`)).toThrow(
      /It must be a whole number from 0 to 16\./,
    );
  });
});
