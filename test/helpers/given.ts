/** A run as tests vary it: what `train` or `sft` takes, settings and options, in one record. */
import { optionsAmong, type CallForm } from '../../src/life/call';
import { SFT_CALL, type SftInput, type SftOptions } from '../../src/sft';
import { TRAIN_CALL, type Sink, type TrainOptions, type TrainSettings } from '../../src/train';

type Both<Settings, Options> = Exclude<keyof Settings & keyof Options, 'sinks'>;

type Flat<Settings, Options> = Omit<Settings, keyof Options> &
  Omit<Options, keyof Settings> & {
    [Name in Both<Settings, Options>]?: Settings[Name] | Options[Name];
  } & { sinks?: readonly (string | Sink)[] };

export type Given = Flat<TrainSettings, TrainOptions>;
export type GivenSft = Flat<SftInput, SftOptions>;

function parted(form: CallForm, { sinks, ...given }: { sinks?: readonly (string | Sink)[] }) {
  const options = optionsAmong(form, given);
  const pick = (chosen: boolean) =>
    Object.fromEntries(Object.entries(given).filter(([name]) => options.includes(name) === chosen));
  // Paths and objects may stand in one list here.
  const paths = sinks && { sinks: sinks.filter((sink) => typeof sink === 'string') };
  const objects = sinks && { sinks: sinks.filter((sink) => typeof sink !== 'string') };
  return [
    { ...pick(false), ...paths },
    { ...pick(true), ...objects },
  ] as const;
}

/** The same as the two arguments of `train`. */
export const asCall = (given: Given) => parted(TRAIN_CALL, given) as [TrainSettings, TrainOptions];

/** The same as the two arguments of `sft`. */
export const asSftCall = (given: GivenSft) => parted(SFT_CALL, given) as [SftInput, SftOptions];
