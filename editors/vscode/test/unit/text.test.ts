import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Backoff } from "../../src/backoff";
import { parseVersion } from "../../src/version";
import { oneLine, visible } from "../../src/visible";

describe("visible", () => {
  for (const [name, text, want] of [
    ["leaves text, tabs, line ends and joined emoji", "a\tb\r\nc 👩‍👩‍👧 ü", "a\tb\r\nc 👩‍👩‍👧 ü"],
    ["shows escape sequences", "\u001b[31mred\u001b]8;;http://x\u0007", "␛[31mred␛]8;;http://x␇"],
    ["shows controls of direction", "a\u202eb\u2066c\u200f", "a⟨U+202E⟩b⟨U+2066⟩c⟨U+200F⟩"],
    ["shows NUL, DEL, C1 and a lone carriage return", "\0\u007f\u009b\rx", "␀␡⟨U+009B⟩␍x"],
    ["shows invisible characters", "a\u200bb\ufeff\u2028\u{e0041}", "a⟨U+200B⟩b⟨U+FEFF⟩⟨U+2028⟩⟨U+E0041⟩"],
  ] as const) {
    it(name, () => {
      assert.equal(visible(text), want);
    });
  }
});

describe("oneLine", () => {
  it("joins lines, cuts between characters, shows what hides", () => {
    assert.equal(oneLine("  a\n\n b\tc ", 10), "a b c");
    assert.equal(oneLine("👍👍👍👍", 3), "👍👍…");
    assert.equal(oneLine("x\u202e", 10), "x⟨U+202E⟩");
  });
});

describe("Backoff", () => {
  it("waits twice as long each time, up to a bound, and forgets", () => {
    const b = new Backoff(1000, 10, 50);
    assert.deepEqual([0, 1, 2, 3, 4].map((t) => b.crashed(t).delay), [10, 20, 40, 50, 50]);
    assert.equal(b.crashed(5).count, 6);
    assert.deepEqual(b.crashed(1004), { delay: 20, count: 2 }, "those of the first 5 ms are too old");
    b.reset();
    assert.equal(b.crashed(1005).count, 1);
  });
});

describe("parseVersion", () => {
  it("knows agent-ls from other programs", () => {
    assert.equal(parseVersion("agent-ls v0.1.0\n"), "v0.1.0");
    assert.equal(parseVersion("cat (GNU coreutils) 9.1\n"), undefined);
    assert.equal(parseVersion(""), undefined);
  });
});
