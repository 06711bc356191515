// The moments that the plots show.

import type { Interval } from "./interval";
import type { Snapshot } from "./snapshot";

export interface Moment {
  /** By the browser's clock, which also drives the axis of time. */
  time_ms: number;
  /** Null where nothing is known: the proxy did not answer, or began anew. Lines break there. */
  data: { snapshot: Snapshot; interval: Interval } | null;
}

export const HISTORY_MS_MAX = 15 * 60_000;

export class History {
  readonly moments: Moment[] = [];

  add(moment: Moment): void {
    this.moments.push(moment);
    while ((this.moments[0]?.time_ms ?? Infinity) < moment.time_ms - HISTORY_MS_MAX - 5_000) {
      this.moments.shift();
    }
  }

  /** The known moment nearest to a time, if one is near enough to speak for it. */
  nearest(time_ms: number, within_ms: number): Moment | null {
    let best: Moment | null = null;
    for (const moment of this.moments) {
      if (moment.data === null) continue;
      const distance = Math.abs(moment.time_ms - time_ms);
      if (distance <= within_ms && (!best || distance < Math.abs(best.time_ms - time_ms))) best = moment;
    }
    return best;
  }
}
