import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";

const read = (path: string): string => readFileSync(path, "utf8");

/** Interfaces by name, their members in order, whatever the white space. */
function interfaces(text: string): Record<string, string[]> {
  const out: Record<string, string[]> = {};
  for (const [, head, body] of text.matchAll(/^(?:export )?interface ([^{]+) \{\n([^}]*)\}/gm)) {
    out[head ?? ""] = (body ?? "").split("\n").map((line) => line.replace(/\/\/.*/, "").trim()).filter((line) => line !== "");
  }
  return out;
}

describe("protocol.ts", () => {
  const types = /^## 9\. Types$[\s\S]*?^```ts\n([\s\S]*?)^```$/m.exec(read("../../docs/protocol.md"))?.[1] ?? "";
  it("has the types of docs/protocol.md (npm run protocol writes it)", () => {
    const documented = interfaces(types);
    assert.ok(Object.keys(documented).length > 50, "section 9 has types");
    assert.deepEqual(interfaces(read("src/protocol.ts")), documented);
  });
  it("is used for methods that the document has", () => {
    const document = read("../../docs/protocol.md");
    const methods = [...read("src/requests.ts").matchAll(/^ {2}"(session\/\w+)":/gm)].map((m) => m[1] ?? "");
    assert.ok(methods.length > 10);
    for (const method of methods) {
      assert.match(document, new RegExp(`^### .*${method}\\b`, "m"), method);
    }
  });
});
