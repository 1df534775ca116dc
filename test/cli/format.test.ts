import { withSpread } from '../../src/cli/view/format';

describe('withSpread', () => {
  it('shows three significant digits below a thousand and whole numbers above', () => {
    expect(withSpread({ median: 12.345, min: 0.5, max: 1234.5678 })).toBe('12.3 (0.500-1235)');
  });

  it('shows what rounds to a thousand like its neighbours, without an exponent', () => {
    expect(withSpread({ median: 999.7, min: 999.4, max: 1000.2 })).toBe('1000 (999-1000)');
    expect(withSpread({ median: 999.5, min: 999.49, max: 1000 })).toBe('1000 (999-1000)');
  });

  it('scales before it rounds', () => {
    expect(withSpread({ median: 999.7e9, min: 998e9, max: 1.5e12 }, 1e-9)).toBe('1000 (998-1500)');
  });
});
