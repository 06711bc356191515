// Asks the proxy for its snapshot.

import type { Snapshot } from "./snapshot";

const TIMEOUT_MS = 3_000;

/** Throws an Error whose message says why there is no snapshot. */
export async function poll(): Promise<Snapshot> {
  const token = tokenOfAddress(location.search);
  const response = await fetch("api/snapshot", {
    headers: token === null ? {} : { Authorization: `Bearer ${token}` },
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((error: unknown) => {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Error(late ? `no answer within ${TIMEOUT_MS / 1000} s` : "no connection");
  });
  if (!response.ok) {
    const reason = (await response.text().catch(() => "")).trim().slice(0, 300);
    throw new Error(`HTTP ${response.status}${reason ? `: ${reason}` : ""}`);
  }
  return response.json().catch(() => {
    throw new Error("the answer is not JSON");
  });
}

/**
 * Escapes become single bytes, as a header can carry no others, and `+` stays: URLSearchParams
 * would make it a space, but it is common in base64 tokens.
 */
export function tokenOfAddress(query: string): string | null {
  const pair = query.replace(/^\?/, "").split("&").find((p) => p.startsWith("token="));
  if (pair === undefined) return null;
  return pair.slice("token=".length).replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)));
}
