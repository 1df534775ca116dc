/** A loss registered under its own name that computes another one and records its inputs. */
import { listLosses, registerLoss, type LossBatch } from '../../src/losses';

let made = 0;

export function recordingLoss(of: string) {
  const inner = listLosses().find(({ name }) => name === of)!;
  const name = `recording-${++made}`;
  const batches: LossBatch[] = [];
  const normalizers: number[] = [];
  registerLoss({
    ...inner,
    name,
    compute(batch, settings, parameters) {
      batches.push(batch);
      normalizers.push(settings.normalizer);
      return inner.compute(batch, settings, parameters);
    },
  });
  return { name, batches, normalizers };
}
