// The separate process that plays an agent: it appends to transcripts as it is
// told by lines of JSON on its standard input, and answers each with a line.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

for await (const line of createInterface({ input: process.stdin })) {
  const { op, file, text, size } = JSON.parse(line);
  mkdirSync(dirname(file), { recursive: true });
  if (op === "append") {
    appendFileSync(file, text);
  } else if (op === "write") {
    writeFileSync(file, text);
  } else if (op === "long") {
    // text with its placeholder replaced by size bytes: too long to be sent through a pipe twice
    appendFileSync(file, text.replace("$LONG", "x".repeat(size)));
  } else {
    throw new Error(`unknown operation ${op}`);
  }
  process.stdout.write("done\n");
}
