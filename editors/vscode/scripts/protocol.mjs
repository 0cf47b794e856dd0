// Writes src/protocol.ts from section 9 of docs/protocol.md.
import { readFileSync, writeFileSync } from "node:fs";

const here = (path) => new URL(path, import.meta.url);
const document = readFileSync(here("../../../docs/protocol.md"), "utf8");
const types = /^## 9\. Types$[\s\S]*?^```ts\n([\s\S]*?)^```$/m.exec(document)?.[1];
if (types === undefined) {
  throw new Error("docs/protocol.md: no types in section 9");
}
const head = `// The messages of docs/protocol.md, section 9. Written by scripts/protocol.mjs
// (npm run protocol); a test compares the two.

`;
writeFileSync(here("../src/protocol.ts"), head + types.replace(/^interface /gm, "export interface ").replace(/(\n\}\n)(?=export)/g, "$1\n"));
