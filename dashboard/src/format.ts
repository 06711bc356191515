// Numbers for people: three significant digits, always with a unit.

export const NONE = "–";

type Number = number | null | undefined;

/** A count or a rate, shortened: 12.3 k. */
export function count(value: Number): string {
  if (value === null || value === undefined) return NONE;
  for (const [size, prefix] of [[1e9, " G"], [1e6, " M"], [1e4, " k"]] as const) {
    if (value >= size) return digits(value / (size === 1e4 ? 1e3 : size)) + prefix;
  }
  return digits(value);
}

export function perSecond(value: Number): string {
  return value === null || value === undefined ? NONE : `${count(value)} /s`;
}

export function duration(us: Number): string {
  if (us === null || us === undefined) return NONE;
  if (us < 999.5) return `${digits(us)} µs`;
  if (us < 999_500) return `${digits(us / 1e3)} ms`;
  return `${digits(us / 1e6)} s`;
}

export function bytes(value: Number): string {
  if (value === null || value === undefined) return NONE;
  if (value < 1000) return `${digits(value)} B`;
  for (const [size, unit] of [[2 ** 20, "KiB"], [2 ** 30, "MiB"]] as const) {
    if (value < size * 0.9995) return `${digits(value / (size / 1024))} ${unit}`;
  }
  return `${digits(value / 2 ** 30)} GiB`;
}

export function bytesPerSecond(value: Number): string {
  return value === null || value === undefined ? NONE : `${bytes(value)}/s`;
}

/** Processor time as a share of one core. */
export function cores(value: Number): string {
  return value === null || value === undefined ? NONE : `${digits(value * 100)} %`;
}

/** A share of a whole. */
export function share(value: Number): string {
  return value === null || value === undefined ? NONE : `${digits(Math.round(value * 1_000) / 10)} %`;
}

/** How long something has lasted, in its two largest units. */
export function age(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function timeOfDay(ms: number): string {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}

function digits(exact: number): string {
  // Ticks of axes are sums of fractions: 15.000000000000002 is meant to be 15.
  const value = Math.round(exact * 1e6) / 1e6;
  if (Number.isInteger(value) && value < 10_000) return String(value);
  const places = value >= 99.95 ? 0 : value >= 9.995 ? 1 : value === 0 ? 0 : 2;
  return value.toFixed(places);
}
