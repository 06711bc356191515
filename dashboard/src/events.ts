// What has happened, as a list beside the plots, on which it is marked.

import { html, text } from "./dom";
import { age, timeOfDay } from "./format";
import type { Happened } from "./history";
import type { Frame } from "./plot";
import type { Range } from "./view";

const SHOWN = 8;
const SHOWN_MAX = 200;
/** How much time before and after an event is shown when somebody asks for it. */
const AROUND_MS = 60_000;

export class Events {
  private readonly list = html("ol", { class: "panel" });
  private readonly more = html("button", { type: "button", class: "link" });
  private readonly hint = html("p", { class: "hint" });
  private is_open = false;
  private frame: Frame | null = null;
  private all: Happened[] = [];
  private now_ms = 0;

  constructor(
    element: HTMLElement,
    private readonly zoom: (range: Range) => void,
  ) {
    this.more.addEventListener("click", () => {
      this.is_open = !this.is_open;
      this.redraw();
    });
    this.hint.append(html("span"), " ", this.more);
    element.append(this.list, this.hint);
  }

  draw(frame: Frame, all: Happened[], now_ms: number): void {
    this.frame = frame;
    this.now_ms = now_ms;
    this.all = all;
    this.redraw();
  }

  private redraw(): void {
    const frame = this.frame;
    if (!frame) return;
    const events = [...frame.events].reverse();
    const shown = events.slice(0, this.is_open ? SHOWN_MAX : SHOWN);
    while (this.list.children.length > shown.length) this.list.lastElementChild?.remove();
    shown.forEach((of, i) => this.fill(this.list.children[i] ?? this.add(), of));
    this.list.hidden = shown.length === 0;
    const earlier = this.all.filter((of) => of.t_ms <= frame.from_ms).at(-1);
    const before = earlier ? ` The one before: ${timeOfDay(earlier.t_ms)}, ${earlier.answer.text}.` : "";
    const none = events.length === 0 ? `Nothing has happened in this time.${before}` : before.trim();
    const [said] = this.hint.children;
    if (said) text(said, none);
    this.more.hidden = events.length <= SHOWN;
    text(this.more, this.is_open ? "Show fewer" : `Show all ${events.length}`);
  }

  private add(): Element {
    const button = html("button", { type: "button", class: "link", title: "Show two minutes around it" });
    button.addEventListener("click", () => {
      const t_ms = Number(button.dataset["t"]);
      this.zoom({ from_ms: t_ms - AROUND_MS, to_ms: t_ms + AROUND_MS });
    });
    const line = html("li", {}, html("i", { "aria-hidden": "true" }), button, html("span", { class: "text" }), html("small"));
    this.list.append(line);
    return line;
  }

  private fill(line: Element, of: Happened): void {
    const [, button, said, ago] = line.children;
    if (!(button instanceof HTMLElement) || !said || !ago) return;
    line.className = of.answer.severity;
    button.dataset["t"] = String(of.t_ms);
    text(button, timeOfDay(of.t_ms));
    text(said, of.answer.text);
    text(ago, `${age(this.now_ms - of.t_ms)} ago`);
  }
}
