// Bundles the extension into dist/. --watch builds again on each change.
import { build, context } from "esbuild";

const common = { bundle: true, minify: true, sourcemap: process.argv.includes("--watch"), logLevel: "warning", legalComments: "none" };
const bundles = [
  { ...common, entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", platform: "node", format: "cjs", target: "node20", external: ["vscode"] },
];
for (const options of bundles) {
  if (process.argv.includes("--watch")) {
    await (await context(options)).watch();
  } else {
    await build(options);
  }
}
