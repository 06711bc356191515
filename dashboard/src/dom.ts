// The few helpers that building a page by hand needs. Text goes in as text, never as markup:
// names of tables and nodes come from outside.

type Child = Node | string;

/** What clients name things is not to change the text beside it: marks of direction, joiners and other characters that
 *  cannot be seen are shown as �, as are more than two marks upon a letter. */
export function plain(value: string): string {
  return value.replace(/(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]|\p{M}{3,}/gu, "\ufffd");
}

export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, plain(value));
  element.append(...children.map((child) => (typeof child === "string" ? plain(child) : child)));
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Record<string, string | number> = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}

/** Leaves the element alone if nothing changed, so that a selection survives. */
export function text(element: Element, value: string): void {
  const shown = plain(value);
  if (element.textContent !== shown) element.textContent = shown;
}

export function byId(id: string): HTMLElement {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no element #${id}`);
  return element;
}
