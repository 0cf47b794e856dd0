// Bundles the tests to out/ and runs them with Node's test runner.
//   node scripts/test.mjs unit|e2e [name part]...
import { spawnSync } from "node:child_process";
import { build } from "esbuild";

const [kind = "unit", ...parts] = process.argv.slice(2);
const files = (await listed(`test/${kind}`)).filter((f) => parts.length === 0 || parts.some((p) => f.includes(p)));
await build({
  entryPoints: files,
  outdir: `out/${kind}`,
  bundle: true,
  platform: "node",
  format: "esm",
  target: "node20",
  outExtension: { ".js": ".mjs" },
  external: ["playwright-core"],
  sourcemap: "inline",
  logLevel: "warning",
});
const out = files.map((f) => f.replace(/^test\//, "out/").replace(/\.ts$/, ".mjs"));
const run = spawnSync(process.execPath, ["--enable-source-maps", "--test", "--test-concurrency=1", "--test-reporter=spec", ...out], { stdio: "inherit" });
process.exitCode = run.status ?? 1;

async function listed(dir) {
  const { readdir } = await import("node:fs/promises");
  const names = await readdir(dir);
  return names.filter((n) => n.endsWith(".test.ts")).sort().map((n) => `${dir}/${n}`);
}
