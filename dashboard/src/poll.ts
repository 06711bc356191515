// Asks the proxy.

const TIMEOUT_MS = 10_000;

/** The proxy wants a token, or another one. */
export class TokenNeeded extends Error {}

/** Anything that the proxy shows as JSON. Throws an Error whose message says why there is nothing. */
export async function ask<T>(path: string, token: string | null): Promise<T> {
  const response = await fetch(path, {
    headers: token === null ? {} : { Authorization: `Bearer ${latin1(token)}` },
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  }).catch((error: unknown) => {
    const late = error instanceof DOMException && error.name === "TimeoutError";
    throw new Error(late ? `no answer within ${TIMEOUT_MS / 1000} s` : "no connection");
  });
  if (response.status === 401) {
    throw new TokenNeeded(token === null ? "it asks for a token" : "it does not accept this token");
  }
  if (!response.ok) {
    const reason = (await response.text().catch(() => "")).trim().slice(0, 300);
    throw new Error(`HTTP ${response.status}${reason ? `: ${reason}` : ""}`);
  }
  return response.json().catch(() => {
    throw new Error("the answer is not JSON");
  });
}

/** The UTF-8 bytes as a header can carry them. */
function latin1(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}
