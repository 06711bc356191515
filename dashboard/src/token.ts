// The token of admin.token: asked for when the proxy wants one, kept for this tab only, and never put
// in an address, where histories, logs and referrers would keep it.

import { byId } from "./dom";

const KEY = "helenus-token";

let token = stored();

export function currentToken(): string | null {
  return token;
}

/** Shows the form, or hides it. */
export function askForToken(needed: boolean): void {
  const form = byId("login");
  if (form.hidden !== needed) return;
  form.hidden = !needed;
  if (needed) input().focus();
}

/** Calls back when a token was given. */
export function onToken(given: () => void): void {
  byId("login").addEventListener("submit", (event) => {
    event.preventDefault();
    token = input().value;
    input().value = "";
    try {
      sessionStorage.setItem(KEY, token);
    } catch {
      // Storage may be forbidden: then the token lives as long as the page.
    }
    given();
  });
}

function input(): HTMLInputElement {
  return byId("token") as HTMLInputElement;
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
