import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { plain } from "../src/dom.ts";

test("what clients name things does not change the text beside it", () => {
  for (const c of ["\u0000", "\u001b", "\r", "\u007f", "\u009b", "\u00ad", "\u061c", "\u115f", "\u200b", "\u200d", "\u200e", "\u2028", "\u202e", "\u2066", "\u3164", "\ufeff", "\u{e0041}", "\u0301".repeat(40)]) {
    assert.equal(plain(`a${c}b`), "a\ufffdb", JSON.stringify(c));
  }
  const names = "orders_1 “Größe” данные 漢字 😀 e\u0301\u0323\tx\ny <b>&amp;</b>";
  assert.equal(plain(names), names);
});

test("nothing is put into the page as markup", () => {
  for (const name of readdirSync("src").filter((name) => name.endsWith(".ts"))) {
    const source = readFileSync(`src/${name}`, "utf8");
    assert.doesNotMatch(source, /innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|\beval\b|new Function/, name);
  }
});
