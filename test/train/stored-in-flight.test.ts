/** Groups in flight, stored and restored; damaged files are refused. */
import type { InFlightGroup, InFlightSample } from '../../src/grpo/sample';
import { decodeSafetensors, encodeSafetensors } from '../../src/run/safetensors';
import { inFlightNumbers, inFlightTensors, restoreInFlight } from '../../src/train/stored-in-flight';

const sample = (finish: InFlightSample['finish'], ...ids: number[]): InFlightSample => ({
  ids: Int32Array.from(ids),
  logprobs: Float64Array.from(ids, (id) => -id),
  entropies: Float64Array.from(ids, (id) => id / 2),
  versions: Int32Array.from(ids, (_, t) => t),
  finish,
});

const groups: InFlightGroup[] = [
  { promptIndex: 4, begun: 2, completed: 0, samples: [sample('stop', 5, 6), sample('length', 7, 8, 9)] },
  { promptIndex: 6, begun: 3, completed: null, samples: [sample('partial', 5), sample('partial')] },
];

const stored = () => decodeSafetensors(encodeSafetensors(inFlightTensors(groups)), 'f');

test('they come back', () => {
  expect(restoreInFlight(inFlightNumbers(groups), stored(), 2)).toEqual(groups);
  expect(inFlightTensors([]).size).toBe(0);
  expect(restoreInFlight([], null, 2)).toEqual([]);
});

test.each<[string, (tensors: ReturnType<typeof stored>) => void, RegExp]>([
  ['a missing tensor', (all) => all.delete('in_flight.ids'), /have no in_flight.ids/],
  ['an unknown end', (all) => (all.get('in_flight.finish')!.data[1] = 7), /an unknown in_flight.finish/],
  ['a sample too few', (all) => all.set('in_flight.finish', { shape: [3], data: new Int32Array(3) }), /3 values/],
  ['other lengths', (all) => all.get('in_flight.versions.lengths')!.data.set([3, 2, 1, 0]), /2 tokens of a sample/],
])('%s is refused', (_, damage, message) => {
  const tensors = stored();
  damage(tensors);
  expect(() => restoreInFlight(inFlightNumbers(groups), tensors, 2)).toThrow(message);
}); // prettier-ignore
