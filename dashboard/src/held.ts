// What the page shows: things as they are, or, while it is paused, as they were then.

import type { Happened } from "./history";
import type { Frame } from "./plot";
import type { Proxy } from "./proxies";
import type { Snapshot } from "./snapshot";
import type { Summary } from "./summary";
import type { View } from "./view";

/** All that is drawn, but for what operators look for. */
export interface Shown {
  now_ms: number;
  frame: Frame;
  events: Happened[];
  snapshot: Snapshot | null;
  summary: Summary | null;
  proxies: Proxy[];
}

export class Held {
  private held: Shown | null = null;

  constructor(private readonly view: View) {}

  hold(of: Shown): void {
    this.view.pause(of.now_ms);
    this.held = of;
  }

  /** `now`: things as they are, in the time that somebody looks at. */
  shown(now: () => Shown): Shown {
    if (!this.view.is_paused) this.held = null;
    const held = this.held;
    if (held === null) return now();
    if (this.view.zoom === null) return held;
    // What has been does not change, whenever one looks at it.
    const { frame, summary } = now();
    return { ...held, frame, summary };
  }
}
