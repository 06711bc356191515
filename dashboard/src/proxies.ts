// This proxy and the others of its tier, with links to their dashboards.

import { html } from "./dom";

export interface Proxy {
  /** As drivers see it. */
  address: string;
  is_self: boolean;
  state: "ready" | "not ready" | "up" | "down" | "unknown";
}

/** Others are taken to have their admin server at the same port as this one. */
export function drawProxies(element: HTMLElement, proxies: Proxy[], fragment: string): void {
  element.hidden = proxies.length < 2;
  const shown = [...proxies].sort((a, b) => a.address.localeCompare(b.address, "en", { numeric: true }));
  element.replaceChildren(
    ...shown.map((proxy) => {
      const pill = html("span", { class: `dot ${dot(proxy.state)}` });
      const title = `${proxy.address}: ${proxy.state}${proxy.is_self ? ", the one that you see" : ""}`;
      const url = proxy.is_self ? null : dashboardOf(proxy.address, location, fragment);
      const name = url === null ? html("b", { title }, proxy.address) : html("a", { title, href: url, rel: "noreferrer" }, proxy.address);
      return html("li", {}, pill, name);
    }),
  );
}

function dot(state: Proxy["state"]): string {
  return { ready: "up", up: "up", "not ready": "down", down: "down", unknown: "unused" }[state];
}

/** Null if the address has no host. */
export function dashboardOf(address: string, here: { protocol: string; port: string }, fragment: string): string | null {
  const host = address.slice(0, address.lastIndexOf(":"));
  const port = here.port === "" ? "" : `:${here.port}`;
  return host === "" ? null : `${here.protocol}//${host}${port}/${fragment === "" ? "" : `#${fragment}`}`;
}
