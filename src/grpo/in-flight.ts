/** Samples with groups in flight: completions go on from one generation to the next, over an update of the weights. */
import { abortable } from '../base/abortable';
import { AcoerError } from '../base/errors';
import { joinArrays, joinPerToken } from '../base/packing';
import { streamSeed } from '../base/rng';
import { maximum } from '../base/statistics';
import type { Group, Prompt, Rollout } from '../base/types';
import {
  DecodeTracker,
  follow,
  requestOf,
  sampleChecked,
  type Completion,
  type SamplePrompt,
} from '../sampling';
import { measureCompletion } from '../tokenizer';
import { samplingSeed, type LoopState, type StepContext } from './context';
import { nextPrompts, promptAt } from './prompts';
import { groupsNeeded, groupsToBegin, nextBatch } from '../base/queue';
import { following, samplingError, sampleSettings, shareOf, toRollout, type SampledShare } from './rollouts';
import { completionName, type InFlightGroup, type InFlightSample } from './sample';
import { head } from './watch';

/** A group with its prompt, while a generation adds to it. */
interface Live extends InFlightGroup {
  prompt: Prompt;
  samples: InFlightSample[];
}

/** What the tokens of a batch were sampled with, in updates before the batch's first one. */
export interface Staleness {
  mean: number;
  max: number;
}

export interface ContinuedGroups {
  groups: Group[];
  shares: SampledShare[];
  staleness: Staleness;
  inFlight: InFlightGroup[];
  /** Next position in the data order. */
  cursor: number;
}

const nothing = (): InFlightSample => ({
  ids: new Int32Array(),
  logprobs: new Float64Array(),
  entropies: new Float64Array(),
  versions: new Int32Array(),
  finish: 'partial',
});

/** A request for samples of a group. */
interface Asked {
  group: number;
  request: SamplePrompt;
}

/** Completions that go on have a request each; those of a group that have not begun share one. */
function askedOf({ config }: StepContext, live: readonly Live[], seed: number | bigint): Asked[] {
  const asked: Asked[] = [];
  live.forEach(({ prompt, samples }, group) =>
    samples.forEach(({ ids, finish }, sample) => {
      if (finish !== 'partial') return;
      const last = asked.at(-1);
      const follows = last?.group === group && last.request.firstSample + last.request.numSamples === sample;
      if (follows && ids.length === 0 && last.request.firstToken === 0) return void last.request.numSamples++;
      const request = {
        ids: joinArrays([prompt.ids, ids], Int32Array),
        thinkOpened: prompt.thinkOpened,
        firstSample: sample,
        numSamples: 1,
        firstToken: ids.length,
        seed: streamSeed(seed, 'sample', prompt.index),
        maxNewTokens: config.maxCompletionLength - ids.length,
        group,
      };
      asked.push({ group, request });
    }),
  );
  return asked;
}

/** A completion with the tokens that the policy of `version` has added. */
const withPart = (
  before: InFlightSample,
  { ids, logprobs, entropies, finish }: Completion,
  version: number,
): InFlightSample => ({
  ids: joinArrays([before.ids, ids], Int32Array),
  logprobs: joinPerToken([before.logprobs, logprobs]),
  entropies: joinPerToken([before.entropies, entropies!]),
  versions: joinArrays([before.versions, new Int32Array(ids.length).fill(version)], Int32Array),
  finish: finish as InFlightSample['finish'],
});

/** The groups so far, with their prompts, and new ones. */
async function liveGroups(
  context: StepContext,
  { step, cursor }: LoopState,
  inFlight: readonly InFlightGroup[],
): Promise<{ live: Live[]; cursor: number }> {
  const { config } = context;
  const begin = groupsToBegin(config, step, inFlight.length);
  const next = await nextPrompts(context, cursor, begin);
  const going = inFlight.map((group) => {
    return { ...group, samples: [...group.samples], prompt: promptAt(context, group.promptIndex) };
  });
  const begun = next.prompts.map((prompt): Live => {
    const samples = Array.from({ length: config.numGenerations }, nothing);
    return { promptIndex: prompt.index, begun: step, completed: null, samples, prompt };
  });
  return { live: [...going, ...begun], cursor: next.cursor };
}

/** What a generation adds to the groups in flight. */
class Continuing {
  private readonly asked: readonly Asked[];
  /** Tell the watchdog that a completion is no longer in flight. */
  private readonly ends: readonly (() => void)[][];
  private readonly arrived: (Completion & { request: number })[] = [];
  /** The place in the order of completion of the group that was completed last. */
  private order: number;
  private done = 0;

  constructor(
    private readonly context: StepContext,
    private readonly live: readonly Live[],
    private readonly state: LoopState,
  ) {
    const { config, watch } = context;
    this.asked = askedOf(context, live, samplingSeed(config, state.eased));
    this.order = maximum([-1, ...live.map(({ completed }) => completed ?? -1)]);
    this.ends = this.requests.map(({ firstSample, numSamples }, part) =>
      Array.from({ length: numSamples }, (_, i) =>
        watch.begin(() => ({
          sample: this.nameOf(part, firstSample + i),
          problem: head(this.promptOf(part).problem.question),
        })),
      ),
    );
  }

  private get requests(): SamplePrompt[] {
    return this.asked.map(({ request }) => request);
  }

  private promptOf(part: number): Prompt {
    return this.live[this.asked[part]!.group]!.prompt;
  }

  private nameOf(part: number, sample: number): string {
    return completionName(this.promptOf(part), sample);
  }

  /** Samples until so many groups are complete; adds to `live`. */
  async run(completeGroups: Int32Array): Promise<SampledShare> {
    const { config, model, policy, sampler, tokenizer, onDecoded, watch, signal } = this.context;
    const started = performance.now();
    const { requests } = this;
    const tracker = new DecodeTracker();
    tracker.begin(this.asked.map((_, part) => this.promptOf(part)));
    const total = requests.reduce((sum, { numSamples }) => sum + numSamples, 0);
    const tell = () => onDecoded?.({ done: this.done, total, ...tracker.decoding });
    const onProgress = following(watch, tracker, tell);
    const settings = { ...sampleSettings(this.context), completeGroups, onProgress };
    await follow(sampler, policy.version, signal);
    const onCompletion = (part: Completion) => {
      tracker.ended({ prompt: part.prompt, sample: part.sample, tokens: part.ids.length });
      this.add(part);
      tell();
    };
    const nameOf = (part: number, sample: number) => this.nameOf(part, sample);
    const border = { tokenizer, vocabSize: model.info.vocabSize, nameOf };
    const stats = await sampleChecked(sampler, requests, settings, border, onCompletion).catch(
      (error: unknown) => {
        const native = requests.map((request) => requestOf(request, settings, policy));
        const places = requests.map(({ ids }, part) => ({
          promptIndex: this.promptOf(part).index,
          promptIds: ids,
        }));
        throw samplingError(error, config, places, native, this.arrived);
      },
    );
    if (this.arrived.some(({ finish }) => finish === 'cancelled'))
      throw new AcoerError('CANCELLED', 'Generation ended before the completions of a step were sampled.');
    return shareOf(stats, performance.now() - started);
  }

  private add(part: Completion): void {
    const { prompt: place, sample, finish } = part;
    const { group: g, request } = this.asked[place]!;
    this.ends[place]![sample - request.firstSample]!();
    this.arrived.push({ ...part, request: place });
    if (finish === 'cancelled') return;
    const group = this.live[g]!;
    group.samples[sample] = withPart(group.samples[sample]!, part, this.state.step);
    if (finish === 'partial') return;
    this.done++;
    if (group.samples.every((one) => one.finish !== 'partial')) group.completed = ++this.order;
  }
}

/** The completions of a group as they would be if one generation had made them. */
async function gradedGroup(context: StepContext, { prompt, samples }: Live): Promise<Group> {
  const { tokenizer } = context;
  const rollouts = samples.map(async ({ ids, logprobs, entropies, finish }, sample): Promise<Rollout> => {
    const text = tokenizer.decode(ids, { skipSpecial: true });
    const counts = measureCompletion(ids, tokenizer, prompt.thinkOpened);
    const completion = { prompt: 0, sample, ids, logprobs, entropies, finish, text, ...counts };
    return { ...(await toRollout(context, prompt, completion)), prompt };
  });
  return { prompt, rollouts: await Promise.all(rollouts) };
}

function stalenessOf(batch: readonly InFlightGroup[], step: number): Staleness {
  let [sum, max, tokens] = [0, 0, 0];
  for (const { versions } of batch.flatMap(({ samples }) => samples)) {
    for (const version of versions) {
      sum += step - version;
      max = Math.max(max, step - version);
    }
    tokens += versions.length;
  }
  return { mean: sum / Math.max(1, tokens), max };
}

/**
 * The next batch of groups, graded, in the order in which they became complete. Draws depend only on the run's seed, the
 * prompt's index, the number of the sample and the token's place; when a completion passes from one policy to the next
 * also depends on how many are decoded at a time.
 * @throws NonFiniteError when the model's logits are not finite
 */
export async function continueGroups(
  context: StepContext,
  state: LoopState,
  inFlight: readonly InFlightGroup[],
): Promise<ContinuedGroups> {
  const { config, signal } = context;
  const { live, cursor } = await liveGroups(context, state, inFlight);
  const needed = groupsNeeded(config, state.step, live);
  const share = await new Continuing(context, live, state).run(needed);
  const batch = nextBatch(live, needed);
  const groups = await abortable(Promise.all(batch.map((group) => gradedGroup(context, group))), signal);
  const rest = live.filter((group) => !batch.includes(group)).map(({ prompt: _, ...group }) => group);
  return { groups, shares: [share], staleness: stalenessOf(batch, state.step), inFlight: rest, cursor };
}
