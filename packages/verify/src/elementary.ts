/** The functions of one argument, made of the operations that doubles and balls have in common. */
import { wordSet } from './lexicon';

type Unary = 'negate' | 'sqrt' | 'exp' | 'log' | 'sin' | 'cos' | 'asin' | 'acos' | 'atan';
type Binary = 'add' | 'subtract' | 'multiply' | 'divide';
type Operations<T> = { one: T } & Record<Unary, (z: T) => T> & Record<Binary, (a: T, b: T) => T>;

/** Functions of an angle. */
export const TRIGONOMETRIC = wordSet('sin cos tan cot sec csc');

export function elementary<T>(math: Operations<T>): Record<string, (z: T) => T> {
  const { one } = math;
  const two = math.add(one, one);
  const over = (z: T): T => math.divide(one, z);
  const half = (z: T): T => math.divide(z, two);
  const sinh = (z: T): T => half(math.subtract(math.exp(z), math.exp(math.negate(z))));
  const cosh = (z: T): T => half(math.add(math.exp(z), math.exp(math.negate(z))));
  return {
    sin: (z) => math.sin(z),
    cos: (z) => math.cos(z),
    tan: (z) => math.divide(math.sin(z), math.cos(z)),
    cot: (z) => math.divide(math.cos(z), math.sin(z)),
    sec: (z) => over(math.cos(z)),
    csc: (z) => over(math.sin(z)),
    arcsin: (z) => math.asin(z),
    arccos: (z) => math.acos(z),
    arctan: (z) => math.atan(z),
    arccot: (z) => math.atan(over(z)),
    arcsec: (z) => math.acos(over(z)),
    arccsc: (z) => math.asin(over(z)),
    sinh,
    cosh,
    tanh: (z) => math.divide(sinh(z), cosh(z)),
    coth: (z) => math.divide(cosh(z), sinh(z)),
    sech: (z) => over(cosh(z)),
    csch: (z) => over(sinh(z)),
    arsinh: (z) => math.log(math.add(z, math.sqrt(math.add(math.multiply(z, z), one)))),
    arcosh: (z) => {
      const roots = math.multiply(math.sqrt(math.add(z, one)), math.sqrt(math.subtract(z, one)));
      return math.log(math.add(z, roots));
    },
    artanh: (z) => half(math.log(math.divide(math.add(one, z), math.subtract(one, z)))),
    exp: (z) => math.exp(z),
    ln: (z) => math.log(z),
  };
}
