/** The built-in rewards. */
import { acc } from './acc';
import { acoer } from './acoer';
import { acoerFixed } from './acoer-fixed';
import { aDlp } from './a-dlp';
import { alp } from './alp';
import { aroraZanette } from './arora-zanette';
import { beta0, beta001, beta005, beta010 } from './beta';
import { binary } from './binary';
import { brevityLinear } from './brevity-linear';
import { cosine } from './cosine';
import { dast } from './dast';
import { format } from './format';
import { general } from './general';
import { gr3 } from './gr3';
import { grpoLead } from './grpo-lead';
import { grpoLeadOriginal } from './grpo-lead-original';
import { grpoLp } from './grpo-lp';
import { hapo } from './hapo';
import { kimi } from './kimi';
import { l1Exact } from './l1-exact';
import { l1Max } from './l1-max';
import { laser } from './laser';
import { laserD } from './laser-d';
import { recut } from './recut';
import { shortRl } from './short-rl';
import { shorterBetter } from './shorter-better';
import { softOverlong } from './soft-overlong';
import { truncation } from './truncation';
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
