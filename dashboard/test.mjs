// Runs tests/ against the sources, in Node.js: what needs no browser.

import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const tests = (await readdir(here("tests"))).filter((name) => name.endsWith(".test.mjs"));
const folder = await mkdtemp(join(tmpdir(), "helenus-dashboard-"));
try {
  await build({
    absWorkingDir: here("."),
    entryPoints: tests.map((name) => `tests/${name}`),
    outdir: folder,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    // It looks for a browser when it is loaded.
    alias: { uplot: "./tests/uplot.mjs" },
  });
  const run = spawnSync(process.execPath, ["--test", ...tests.map((name) => join(folder, name))], { cwd: here("."), stdio: ["ignore", "pipe", "inherit"] });
  if (run.status !== 0) process.stdout.write(run.stdout);
  process.exitCode = run.status ?? 1;
} finally {
  await rm(folder, { recursive: true });
}
