import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { age, baseName, bytes, compare, contextValue, dateKey, groups, nest } from "../../src/model";
import type { Session } from "../../src/protocol";

const session = (sessionId: string, more: Partial<Session> = {}): Session => ({
  sessionId,
  agent: "a",
  nativeId: sessionId,
  uri: "file:///x",
  titleSource: "none",
  status: "idle",
  size: 1,
  kind: "main",
  can: { append: true, fork: false, rename: true, delete: true, resume: false },
  ...more,
});
const ids = (rows: Session[]): string => rows.map((r) => r.sessionId).join(" ");

describe("the order of sessions", () => {
  const rows = [
    session("b", { updatedAt: "2026-01-02T00:00:00.000Z", size: 5, title: "Zebra", createdAt: "2025-01-01T00:00:00.000Z" }),
    session("a", { updatedAt: "2026-01-02T00:00:00.000Z", size: 7, title: "apple" }),
    session("c", { updatedAt: "2026-01-03T00:00:00.000Z", size: 6, title: "Mango", createdAt: "2026-01-01T00:00:00.000Z" }),
    session("d", { size: 1 }),
  ];
  for (const [sort, want] of [
    ["updated", "c a b d"],
    ["created", "c b a d"],
    ["size", "a c b d"],
    ["title", "d a c b"],
  ] as const) {
    it(`by ${sort}`, () => {
      assert.equal(ids([...rows].sort(compare(sort))), want);
    });
  }
});

describe("groups", () => {
  const now = new Date(2026, 2, 15, 12);
  const at = (days: number): string => new Date(2026, 2, 15 - days, 11).toISOString();
  it("by date are calendar days of the reader", () => {
    const want = { 0: "today", 1: "yesterday", 2: "week", 7: "week", 8: "month", 30: "month", 31: "older" };
    for (const [days, key] of Object.entries(want)) {
      assert.equal(dateKey(at(Number(days)), now), key, `${days} days ago`);
    }
    assert.equal(dateKey(undefined, now), "unknown");
    assert.equal(dateKey("no time", now), "unknown");
    assert.equal(dateKey(new Date(2026, 2, 15).toISOString(), now), "today", "midnight belongs to the day it begins");
  });
  it("come in the order of time, of urgency, of the alphabet", () => {
    const rows = [session("o", { updatedAt: at(90), agent: "z", status: "idle" }), session("t", { updatedAt: at(0), agent: "b", status: "running" }), session("w", { updatedAt: at(1), agent: "a", status: "requires_action" })];
    const keys = (by: "date" | "agent" | "status" | "none"): string[] => groups(rows, by, "updated", now).map((g) => g.key);
    assert.deepEqual(keys("date"), ["today", "yesterday", "older"]);
    assert.deepEqual(keys("agent"), ["a", "b", "z"]);
    assert.deepEqual(keys("status"), ["requires_action", "running", "idle"]);
    assert.deepEqual(keys("none"), [""]);
  });
});

describe("nesting", () => {
  it("puts subagents below parents that are there, at any depth, and hides those whose parent is not", () => {
    const { top, below } = nest([session("p"), session("s", { kind: "subagent", parentSessionId: "p" }), session("ss", { kind: "subagent", parentSessionId: "s" }), session("lost", { kind: "subagent", parentSessionId: "gone" }), session("f", { kind: "fork", parentSessionId: "p" })]);
    assert.equal(ids(top), "p f");
    assert.equal(ids(below.get("p") ?? []), "s");
    assert.equal(ids(below.get("s") ?? []), "ss");
  });
});

describe("words", () => {
  it("age", () => {
    const now = Date.parse("2026-06-01T00:00:00.000Z");
    for (const [seconds, want] of [
      [0, "0s"],
      [-5, "0s"],
      [59, "59s"],
      [60, "1m"],
      [3599, "59m"],
      [3600, "1h"],
      [86400, "1d"],
      [7 * 86400, "1w"],
      [400 * 86400, "1y"],
    ] as const) {
      assert.equal(age(new Date(now - seconds * 1000).toISOString(), now), want);
    }
    assert.equal(age(undefined, now), "");
  });
  it("sizes and names of directories", () => {
    assert.deepEqual([0, 999, 1000, 12_345, 108_000_000, 5e12].map(bytes), ["0 B", "999 B", "1.0 kB", "12 kB", "108 MB", "5000 GB"]);
    assert.deepEqual(["/a/b", "/a/b/", "C:\\x\\y", "/"].map(baseName), ["b", "b", "y", "/"]);
  });
  it("context values name what can be done", () => {
    assert.equal(contextValue(session("x", { unread: true })), "session append rename delete current unread idle");
    assert.match(contextValue(session("x", { archived: true, status: "running" })), / archived read running$/);
  });
});
