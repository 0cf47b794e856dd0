import type { Session } from "./protocol";

/** Pure parts of the list of sessions: order, groups, nesting, words. */

export type GroupBy = "date" | "directory" | "agent" | "status" | "none";
export type Sort = "updated" | "created" | "size" | "title";

export interface Group {
  key: string;
  rows: Session[];
}

/** The order of the server: newest or largest first, titles A to Z, ties by id. */
export function compare(sort: Sort): (a: Session, b: Session) => number {
  const byId = (a: Session, b: Session): number => (a.sessionId < b.sessionId ? -1 : a.sessionId > b.sessionId ? 1 : 0);
  const down = (key: (s: Session) => string): ((a: Session, b: Session) => number) => {
    return (a, b) => (key(a) < key(b) ? 1 : key(a) > key(b) ? -1 : byId(a, b));
  };
  switch (sort) {
    case "updated":
      return down((s) => s.updatedAt ?? "");
    case "created":
      return down((s) => s.createdAt ?? "");
    case "size":
      return (a, b) => b.size - a.size || byId(a, b);
    case "title":
      return (a, b) => (a.title ?? "").localeCompare(b.title ?? "") || byId(a, b);
  }
}

export const dateKeys = ["today", "yesterday", "week", "month", "older", "unknown"] as const;
export type DateKey = (typeof dateKeys)[number];

/** Which part of the past a time belongs to, by calendar days of the reader. */
export function dateKey(time: string | undefined, now: Date): DateKey {
  const t = time === undefined ? Number.NaN : Date.parse(time);
  if (Number.isNaN(t)) {
    return "unknown";
  }
  const midnight = new Date(now.getFullYear(), now.getMonth(), now.getDate());
  const before = (days: number): number => new Date(midnight.getFullYear(), midnight.getMonth(), midnight.getDate() - days).getTime();
  if (t >= before(0)) {
    return "today";
  }
  if (t >= before(1)) {
    return "yesterday";
  }
  if (t >= before(7)) {
    return "week";
  }
  return t >= before(30) ? "month" : "older";
}

export const statusKeys = ["requires_action", "running", "idle", "unknown"] as const;

/** Puts sorted rows in groups; rows keep their order. */
export function groups(rows: readonly Session[], by: GroupBy, sort: Sort, now: Date): Group[] {
  const key = (s: Session): string => {
    switch (by) {
      case "date":
        return dateKey(sort === "created" ? s.createdAt : s.updatedAt, now);
      case "directory":
        return s.cwd ?? "";
      case "agent":
        return s.agent;
      case "status":
        return s.status;
      case "none":
        return "";
    }
  };
  const found = new Map<string, Session[]>();
  for (const row of rows) {
    const k = key(row);
    const list = found.get(k);
    if (list === undefined) {
      found.set(k, [row]);
    } else {
      list.push(row);
    }
  }
  const order: readonly string[] = by === "date" ? dateKeys : by === "status" ? statusKeys : by === "none" ? [] : [...found.keys()].sort();
  const place = (k: string): number => {
    const i = order.indexOf(k);
    return i < 0 ? order.length : i;
  };
  return [...found].map(([k, list]) => ({ key: k, rows: list })).sort((a, b) => place(a.key) - place(b.key));
}

/** Which rows stand at the top, and which below which: a row whose parent is not there stands at the top if it is no subagent. */
export function nest(rows: readonly Session[]): { top: Session[]; below: Map<string, Session[]> } {
  const ids = new Set(rows.map((r) => r.sessionId));
  const top: Session[] = [];
  const below = new Map<string, Session[]>();
  for (const row of rows) {
    const parent = row.parentSessionId;
    if (row.kind !== "subagent" || parent === undefined || parent === row.sessionId) {
      top.push(row);
    } else if (ids.has(parent)) {
      const list = below.get(parent);
      if (list === undefined) {
        below.set(parent, [row]);
      } else {
        list.push(row);
      }
    }
  }
  return { top, below };
}

/** How long ago, in at most four characters: 12s, 5m, 3h, 2d, 6w, 1y. */
export function age(time: string | undefined, now: number): string {
  const t = time === undefined ? Number.NaN : Date.parse(time);
  if (Number.isNaN(t)) {
    return "";
  }
  const s = Math.max(0, (now - t) / 1000);
  const units: [number, string][] = [
    [365 * 86400, "y"],
    [7 * 86400, "w"],
    [86400, "d"],
    [3600, "h"],
    [60, "m"],
  ];
  for (const [size, name] of units) {
    if (s >= size) {
      return `${String(Math.floor(s / size))}${name}`;
    }
  }
  return `${String(Math.floor(s))}s`;
}

/** A size for people. */
export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return `${n >= 10 || i === 0 ? n.toFixed(0) : n.toFixed(1)} ${units[i] ?? ""}`;
}

/** The words in a tree item's context value that menus ask for. */
export function contextValue(s: Session): string {
  const words = ["session"];
  for (const [name, can] of Object.entries(s.can)) {
    if (can) {
      words.push(name);
    }
  }
  words.push(s.archived === true ? "archived" : "current", s.unread === true ? "unread" : "read", s.status);
  return words.join(" ");
}

/** The name of a directory as people write it, and the last part of its path. */
export function baseName(dir: string): string {
  return dir.replace(/[/\\]+$/, "").replace(/^.*[/\\]/, "") || dir;
}
