/** A run as tests vary it: what `train` takes, settings and options, in one record. */
import { optionsAmong } from '../../src/life/call';
import { TRAIN_CALL, type Sink, type TrainOptions, type TrainSettings } from '../../src/train';

type Both = keyof TrainSettings & keyof TrainOptions;

export type Given = Omit<TrainSettings, Both> &
  Omit<TrainOptions, Both> & {
    [Name in Exclude<Both, 'sinks'>]?: TrainSettings[Name] | TrainOptions[Name];
  } & {
    sinks?: readonly (string | Sink)[];
  };

/** The same as the two arguments of `train`. */
export function asCall(given: Given): [TrainSettings, TrainOptions] {
  const options = optionsAmong(TRAIN_CALL, given);
  const pick = (chosen: boolean) =>
    Object.fromEntries(Object.entries(given).filter(([name]) => options.includes(name) === chosen));
  const [settings, own]: [TrainSettings, TrainOptions] = [pick(false), pick(true)];
  const { sinks } = given;
  if (!Array.isArray(sinks)) return [settings, own];
  // Paths and objects may stand in one list here.
  const paths = sinks.filter((sink) => typeof sink === 'string');
  return [
    { ...settings, sinks: paths },
    { ...own, sinks: sinks.filter((sink) => typeof sink !== 'string') },
  ];
}
