/** Means over the seeds of a study. */

/** 97.5% points of Student's t with 1, 2, ... degrees of freedom. */
const T_975 = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** Half the width of the 95% interval of the mean, for 2 to 10 values that are normal. */
export function tInterval(values) {
  const centre = mean(values);
  const variance = values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / (values.length - 1);
  return T_975[values.length - 2] * Math.sqrt(variance / values.length);
}
