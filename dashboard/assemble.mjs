// Bundles the sources into the one page that the proxy carries. With --check, tells whether the
// committed page is what the sources give.

import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const source = (name) => readFile(here(`src/${name}`), "utf8");
const page = here("../crates/proxy/assets/dashboard.html");

const bundle = await build({
  absWorkingDir: here("."),
  entryPoints: ["src/main.ts"],
  bundle: true,
  write: false,
  format: "iife",
  target: "es2023",
  charset: "utf8",
  minify: true,
  // The licence stands at the head of the page.
  legalComments: "none",
});
// As functions, because replacement strings would give "$&" and the like a meaning.
const library = (name) => readFile(here(`node_modules/uplot/${name}`), "utf8");
const licence = (await library("LICENSE")).trim();
const made = (await source("page.html"))
  .replace("/*LIBRARY*/\n", await library("dist/uPlot.min.css").then((style) => () => `${style.trim()}\n`))
  .replace("<!--LICENCE-->", () => `<!-- uPlot, which draws the plots:\n\n${licence}\n-->`)
  .replace("/*STYLE*/\n", await source("style.css").then((style) => () => style))
  .replace("/*SCRIPT*/\n", () => bundle.outputFiles[0].text);

if (!process.argv.includes("--check")) {
  await writeFile(page, made);
} else if (made !== (await readFile(page, "utf8"))) {
  console.error("crates/proxy/assets/dashboard.html is not what dashboard/src gives: run dashboard/build");
  process.exit(1);
}
