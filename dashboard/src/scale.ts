// Axes: from values to pixels, and where the lines of the grid stand.

export interface Scale {
  /** 0 at the bottom of the plot, 1 at its top. */
  position: (value: number) => number;
  ticks: number[];
}

/** From zero to a round number above the largest value. */
export function linear(values: number[], smallest_max: number): Scale {
  const largest = Math.max(smallest_max, ...values);
  const step = roundUp(largest / 4);
  const max = Math.ceil(largest / step - 1e-9) * step;
  const ticks = Array.from({ length: Math.round(max / step) + 1 }, (_, i) => i * step);
  return { position: (value) => value / max, ticks };
}

/** The same for bytes, whose round numbers are powers of two. */
export function binary(values: number[], smallest_max: number): Scale {
  const largest = Math.max(smallest_max, ...values);
  const step = 2 ** Math.ceil(Math.log2(largest / 4));
  const max = Math.ceil(largest / step) * step;
  const ticks = Array.from({ length: Math.round(max / step) + 1 }, (_, i) => i * step);
  return { position: (value) => value / max, ticks };
}

/** Logarithmic, between numbers of the row 1, 2, 5, 10 … that enclose all values. */
export function logarithmic(values: number[]): Scale {
  const positive = values.filter((v) => v > 0);
  const low = roundDown(positive.length ? Math.min(...positive) : 100);
  let high = roundUp(positive.length ? Math.max(...positive) : 10_000);
  if (high < low * 10) high = low * 10;
  const all: number[] = [];
  for (let tick = low; tick <= high * 1.001; tick = roundUp(tick * 1.1)) all.push(tick);
  const decades = all.filter((tick) => Math.abs(Math.log10(tick) - Math.round(Math.log10(tick))) < 1e-9);
  const span = Math.log(high / low);
  return {
    position: (value) => Math.log(Math.max(value, low) / low) / span,
    ticks: all.length > 6 ? decades : all,
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

/** The same for counts, from one on. */
export function logarithmicCounts(values: number[]): Scale {
  return logarithmic([1, 10, ...values]);
}
