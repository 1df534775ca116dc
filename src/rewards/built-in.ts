/** The built-in rewards. */
import { aDlp } from './a-dlp';
import { acoer } from './acoer';
import { acoerFixed } from './acoer-fixed';
import { alp } from './alp';
import { aroraZanette } from './arora-zanette';
import { brevityLinear } from './brevity-linear';
import { cosine } from './cosine';
import { dast } from './dast';
import { beta0, beta001, beta005, beta010, binary, general } from './general';
import { gr3 } from './gr3';
import { grpoLead, grpoLeadOriginal } from './grpo-lead';
import { grpoLp } from './grpo-lp';
import { hapo } from './hapo';
import { kimi } from './kimi';
import { l1Exact, l1Max } from './l1';
import { laser, laserD } from './laser';
import { acc, format, truncation } from './lengthless';
import { recut } from './recut';
import { shortRl } from './short-rl';
import { shorterBetter } from './shorter-better';
import { softOverlong } from './soft-overlong';
import type { RewardDefinition } from './types';

/** The paper's configurations in the order of its table, ours next to them, then those of other papers. */
export const BUILT_IN: readonly RewardDefinition[] = [
  acc,
  beta0,
  beta001,
  beta005,
  beta010,
  grpoLp,
  grpoLead,
  recut,
  acoer,
  binary,
  acoerFixed,
  general,
  shortRl,
  l1Exact,
  l1Max,
  alp,
  laser,
  laserD,
  kimi,
  softOverlong,
  shorterBetter,
  aroraZanette,
  gr3,
  aDlp,
  hapo,
  grpoLeadOriginal,
  cosine,
  brevityLinear,
  dast,
  truncation,
  format,
];
