/** f(l): how length enters the paper's general form (equation 2). All start at 1 for l = 0 and fall. */
import { efficiency } from './acoer/controller';

export const SHAPES = ['linear', 'exp', 'log', 'binary'] as const;
export type ShapeName = (typeof SHAPES)[number];

export interface ShapeOptions {
  /** k of the log shape. */
  logScale: number;
  /** tau of the binary shape, in tokens; 0 means L / 2. */
  tau: number;
}

/** `log` is ACOER's g(l/L) = log(1 + k(1 - min(l/L, 1))) / log(1 + k). */
export function shapeOf(name: ShapeName, { logScale, tau }: ShapeOptions) {
  return (l: number, L: number): number => {
    switch (name) {
      case 'linear':
        return 1 - l / L;
      case 'exp':
        return Math.exp(-l / L);
      case 'log':
        return efficiency(l, L, logScale);
      case 'binary':
        return l <= (tau || L / 2) ? 1 : 0;
    }
  };
}
