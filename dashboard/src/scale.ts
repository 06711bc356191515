// Axes: from where to where they reach, and where the lines of the grid are.

export interface Scale {
  is_logarithmic: boolean;
  /** Around the values that there are; null if there are none. */
  range: (min: number | null, max: number | null) => [number, number];
  ticks: (min: number, max: number) => number[];
}

/** From zero to a round number above the largest value. */
export function linear(smallest_max: number): Scale {
  return fromZero(smallest_max, (largest) => roundUp(largest / 4));
}

/** The same for bytes, whose round numbers are powers of two. */
export function binary(smallest_max: number): Scale {
  return fromZero(smallest_max, (largest) => 2 ** Math.ceil(Math.log2(largest / 4)));
}

function fromZero(smallest_max: number, stepOf: (largest: number) => number): Scale {
  return {
    is_logarithmic: false,
    range: (_, max) => {
      const largest = Math.max(smallest_max, max ?? 0);
      const step = stepOf(largest);
      return [0, Math.ceil(largest / step - 1e-9) * step];
    },
    ticks: (_, max) => {
      const step = stepOf(max);
      return Array.from({ length: Math.round(max / step) + 1 }, (_, i) => i * step);
    },
  };
}

/** Between numbers of the row 1, 2, 5, 10 … that enclose all values. */
export function logarithmic(low: number, high: number): Scale {
  return {
    is_logarithmic: true,
    range: (min, max) => {
      const from = roundDown(min !== null && min > 0 ? min : low);
      const to = roundUp(max !== null && max > 0 ? max : high);
      return [from, Math.max(to, from * 10)];
    },
    ticks: (min, max) => {
      const all: number[] = [];
      for (let tick = min; tick <= max * 1.001; tick = roundUp(tick * 1.1)) all.push(tick);
      const decades = all.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9);
      return all.length > 6 ? decades : all;
    },
  };
}

function roundUp(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  const factor = [1, 2, 5, 10].find((f) => f * power >= value * (1 - 1e-9)) ?? 10;
  return factor * power;
}

function roundDown(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value) + 1e-9);
  const factor = [5, 2, 1].find((f) => f * power <= value * (1 + 1e-9)) ?? 1;
  return factor * power;
}
