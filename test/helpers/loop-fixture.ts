import { readFileSync } from 'node:fs';
import { join } from 'node:path';

/** Cases stored by scripts/fixtures/grpo.py. */
export function loopCases<Case>(name: string): Case[] {
  const path = join(__dirname, '..', 'fixtures', 'grpo', `${name}.json`);
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: Case[] }).cases;
}
