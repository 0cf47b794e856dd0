import * as vscode from "vscode";
import { agentIcon } from "./agents";
import { message } from "./client";
import type { Client } from "./client";
import { age, baseName, bytes, compare, contextValue, groups, nest } from "./model";
import type { GroupBy, Sort } from "./model";
import type { Changed, Filters, ListParams, Session } from "./protocol";
import { configuration } from "./settings";
import { oneLine } from "./visible";

export type Node = SessionNode | GroupNode | MoreNode;

export interface SessionNode {
  kind: "session";
  session: Session;
  parent: Node | undefined;
}
export interface GroupNode {
  kind: "group";
  id: string;
  label: string;
  icon: string;
  rows: Session[];
  section: Section;
  parent: GroupNode | undefined;
  /** Whether this is a whole section, with groups inside. */
  whole: boolean;
}
export interface MoreNode {
  kind: "more";
  section: Section;
  parent: GroupNode | undefined;
}

/** Rows that are asked for together: this workspace, or everything else. */
interface Section {
  name: "here" | "elsewhere";
  queries: { params: ListParams; cursor: string | undefined; total: number }[];
  rows: Map<string, Session>;
  loaded: boolean;
  busy: Promise<void> | undefined;
}

const rowScheme = "agent-session-row";

/** The settings that make the list, read once for each build of it. */
interface Wanted {
  groupBy: GroupBy;
  sort: Sort;
  scope: string;
  pageSize: number;
  elsewhere: boolean;
  filters: Filters;
}

function wanted(): Wanted {
  const c = configuration();
  return {
    groupBy: c.get<GroupBy>("sessions.groupBy", "date"),
    sort: c.get<Sort>("sessions.sort", "updated"),
    scope: c.get<string>("sessions.scope", "subtree"),
    pageSize: Math.min(1000, Math.max(10, c.get<number>("sessions.pageSize", 200))),
    elsewhere: c.get<boolean>("sessions.showElsewhere", false),
    filters: {
      includeSubagents: true,
      includeEmpty: c.get<boolean>("sessions.showEmpty", false),
      includeProgrammatic: c.get<boolean>("sessions.showProgrammatic", false),
      archived: c.get<boolean>("sessions.showArchived", false) ? "include" : "exclude",
    },
  };
}

/** The sidebar: asks the server for pages of sessions and keeps them up to date. */
export class SessionTree implements vscode.TreeDataProvider<Node>, vscode.FileDecorationProvider, vscode.Disposable {
  private readonly disposables: vscode.Disposable[] = [];
  private readonly treeEmitter = new vscode.EventEmitter<Node | undefined>();
  private readonly decorationEmitter = new vscode.EventEmitter<vscode.Uri[]>();
  readonly onDidChangeTreeData = this.treeEmitter.event;
  readonly onDidChangeFileDecorations = this.decorationEmitter.event;
  readonly view: vscode.TreeView<Node>;

  private want = wanted();
  private query = "";
  private sections: Section[] = [];
  private roots: Node[] = [];
  /** The nodes of the tree as it was last built, by session. */
  private nodes = new Map<string, SessionNode>();
  private children = new Map<string, Node[]>();
  private shape = "";
  private generation = 0;
  private rebuildTimer: NodeJS.Timeout | undefined;
  private refetchTimer: NodeJS.Timeout | undefined;
  private readonly clock: NodeJS.Timeout;

  constructor(private readonly client: Client) {
    this.view = vscode.window.createTreeView("agentLs.sessions", { treeDataProvider: this, showCollapseAll: true, canSelectMany: true });
    this.clock = setInterval(() => {
      if (this.view.visible && this.nodes.size > 0) {
        this.rebuild(true);
      }
    }, 60_000);
    this.disposables.push(
      this.treeEmitter,
      this.decorationEmitter,
      this.view,
      vscode.window.registerFileDecorationProvider(this),
      client.onDidChangeState((state) => {
        if (state === "ready") {
          void this.reload();
        } else if (state === "noServer" || state === "failed" || state === "untrusted") {
          this.clear();
        }
        this.say();
      }),
      client.onDidChangeSessions((c) => {
        this.changed(c);
      }),
      vscode.workspace.onDidChangeWorkspaceFolders(() => void this.reload()),
      vscode.workspace.onDidChangeConfiguration((e) => {
        if (e.affectsConfiguration("agentLs.sessions")) {
          void this.reload();
        }
      }),
    );
  }

  dispose(): void {
    clearInterval(this.clock);
    clearTimeout(this.rebuildTimer);
    clearTimeout(this.refetchTimer);
    for (const d of this.disposables) {
      d.dispose();
    }
  }

  /** What is looked for; empty shows all. */
  get filter(): string {
    return this.query;
  }

  set filter(text: string) {
    if (text !== this.query) {
      this.query = text;
      void vscode.commands.executeCommand("setContext", "agentLs.filtered", text !== "");
      void this.reload();
    }
  }

  /** The row of a session, if it is loaded. */
  session(id: string): Session | undefined {
    return this.nodes.get(id)?.session;
  }

  /** The loaded sessions in the order of the list. */
  loaded(): Session[] {
    return [...this.nodes.values()].map((n) => n.session);
  }

  /** Selects a session's row, if it is loaded. */
  async reveal(id: string): Promise<void> {
    const node = this.nodes.get(id);
    if (node !== undefined && this.view.visible) {
      await this.view.reveal(node, { select: true, focus: false });
    }
  }

  private clear(): void {
    this.generation++;
    this.sections = [];
    this.rebuild(true);
  }

  /** Asks for everything anew; what is shown stays until the answer is there. */
  async reload(): Promise<void> {
    if (this.client.state !== "ready") {
      return;
    }
    const generation = ++this.generation;
    this.want = wanted();
    void vscode.commands.executeCommand("setContext", "agentLs.elsewhere", this.want.elsewhere);
    void vscode.commands.executeCommand("setContext", "agentLs.archived", this.want.filters.archived === "include");
    const { filters, sort, scope, pageSize, elsewhere } = this.want;
    const common: ListParams = { ...filters, sort, limit: pageSize, ...(this.query === "" ? {} : { query: this.query }) };
    const folders = (vscode.workspace.workspaceFolders ?? []).filter((f) => f.uri.scheme === "file").map((f) => f.uri.fsPath);
    const section = (name: Section["name"], list: ListParams[]): Section => ({
      name,
      queries: list.map((params) => ({ params, cursor: undefined, total: 0 })),
      rows: new Map(),
      loaded: false,
      busy: undefined,
    });
    const next: Section[] = [];
    if (folders.length > 0) {
      next.push(section("here", folders.map((cwd) => ({ ...common, cwd, scope }))));
    }
    if (elsewhere || folders.length === 0) {
      next.push(section("elsewhere", [common]));
    }
    try {
      await vscode.window.withProgress({ location: { viewId: "agentLs.sessions" } }, async () => {
        await this.client.request("session/watch", filters);
        for (const s of next) {
          await this.page(s, true);
        }
      });
    } catch (error) {
      this.client.log.error(`sessions cannot be listed: ${message(error)}`);
      if (generation === this.generation) {
        this.view.message = message(error);
      }
      return;
    }
    if (generation !== this.generation) {
      return;
    }
    this.sections = next;
    this.rebuild(true);
  }

  /** Loads the next page of a section, or the first one again. */
  private page(section: Section, first: boolean): Promise<void> {
    section.busy ??= this.fetch(section, first).finally(() => {
      section.busy = undefined;
    });
    return section.busy;
  }

  private async fetch(section: Section, first: boolean): Promise<void> {
    for (const q of section.queries) {
      if (!first && q.cursor === undefined) {
        continue;
      }
      const page = await this.client.request("session/list", first || q.cursor === undefined ? q.params : { ...q.params, cursor: q.cursor });
      q.total = page.total;
      if (!first || !section.loaded) {
        q.cursor = page.nextCursor;
      }
      for (const row of page.sessions) {
        section.rows.set(row.sessionId, row);
      }
    }
    section.loaded = true;
  }

  /** Loads the next page behind what is shown. */
  async more(section: Section): Promise<void> {
    try {
      await this.page(section, false);
    } catch (error) {
      void vscode.window.showErrorMessage(message(error));
    }
    this.rebuild(true);
  }

  private changed(c: Changed): void {
    let known = false;
    let foreign = false;
    const here = this.sections.find((s) => s.name === "here");
    for (const id of c.removed) {
      for (const s of this.sections) {
        known = s.rows.delete(id) || known;
      }
    }
    for (const row of [...c.added, ...c.updated]) {
      const homes = this.sections.filter((s) => s.rows.has(row.sessionId));
      for (const s of homes) {
        s.rows.set(row.sessionId, row);
        known = true;
      }
      foreign ||= homes.length === 0 && (here !== undefined || this.sections.length > 0);
    }
    if (c.updated.length + c.added.length > 0) {
      this.decorationEmitter.fire([...c.updated, ...c.added].map((s) => rowUri(s.sessionId)));
    }
    if (known) {
      this.later();
    }
    // Only the server knows whether a new row belongs here (scope, filter).
    if (foreign || this.query !== "") {
      this.refetchTimer ??= setTimeout(() => {
        this.refetchTimer = undefined;
        void this.refetch();
      }, 150);
    }
  }

  private async refetch(): Promise<void> {
    if (this.query !== "") {
      await this.reload();
      return;
    }
    try {
      for (const s of this.sections) {
        await this.page(s, true);
      }
    } catch (error) {
      this.client.log.debug(`sessions cannot be listed: ${message(error)}`);
    }
    this.rebuild(false);
  }

  /** Rebuilds soon: at once for a short list, less often for a long one. */
  private later(): void {
    this.rebuildTimer ??= setTimeout(() => {
      this.rebuildTimer = undefined;
      this.rebuild(false);
    }, Math.min(1000, 20 + this.nodes.size / 20));
  }

  private rebuild(all: boolean): void {
    const before = this.nodes;
    this.nodes = new Map();
    this.children = new Map();
    const roots: Node[] = [];
    const here = this.sections.find((s) => s.name === "here");
    for (const s of this.sections) {
      const rows = [...s.rows.values()].filter((r) => s === here || here?.rows.has(r.sessionId) !== true).sort(compare(this.want.sort));
      if (s.name === "elsewhere" && here !== undefined) {
        if (rows.length > 0) {
          const whole: GroupNode = { kind: "group", id: "elsewhere", label: vscode.l10n.t("Other Directories"), icon: "folder-library", rows, section: s, parent: undefined, whole: true };
          roots.push(whole);
          this.children.set(whole.id, this.level(s, rows, whole, before));
        }
      } else {
        roots.push(...this.level(s, rows, undefined, before));
      }
    }
    this.roots = roots;
    const shape = this.shapeOf();
    if (all || shape !== this.shape) {
      this.shape = shape;
      this.treeEmitter.fire(undefined);
    } else {
      for (const [id, node] of this.nodes) {
        if (before.get(id) === node && node.session !== this.drawn.get(id)) {
          this.treeEmitter.fire(node);
        }
      }
    }
    this.drawn = new Map([...this.nodes].map(([id, node]) => [id, node.session]));
    const waiting = [...this.nodes.values()].filter((n) => n.session.status === "requires_action").length;
    this.view.badge = waiting === 0 ? undefined : { value: waiting, tooltip: vscode.l10n.t("{0} sessions wait for you", waiting) };
    this.say();
  }
  private drawn = new Map<string, Session>();

  /** The ids of the tree in order: when it is the same, only rows are redrawn. */
  private shapeOf(): string {
    const ids = (nodes: Node[]): string[] =>
      nodes.flatMap((n) => {
        const id = n.kind === "session" ? n.session.sessionId : n.kind === "group" ? n.id : `more ${String(rest(n.section))}`;
        return [id, "(", ...ids(this.children.get(id) ?? []), ")"];
      });
    return ids(this.roots).join("\n");
  }

  /** The nodes of a section: groups, or rows where there are none. */
  private level(section: Section, rows: Session[], parent: GroupNode | undefined, before: Map<string, SessionNode>): Node[] {
    const { top, below } = nest(rows);
    const add = (row: Session, at: Node | undefined): SessionNode => {
      // The same object, so that the editor knows the row again.
      const node = before.get(row.sessionId) ?? { kind: "session", session: row, parent: at };
      node.session = row;
      node.parent = at;
      this.nodes.set(row.sessionId, node);
      const list = below.get(row.sessionId);
      if (list !== undefined) {
        below.delete(row.sessionId);
        this.children.set(
          row.sessionId,
          list.map((r) => add(r, node)),
        );
      }
      return node;
    };
    const out: Node[] = [];
    if (this.want.groupBy === "none") {
      out.push(...top.map((r) => add(r, parent)));
    } else {
      for (const g of groups(top, this.want.groupBy, this.want.sort, new Date())) {
        const node: GroupNode = {
          kind: "group",
          id: `${section.name}/${this.want.groupBy}/${g.key}`,
          label: this.groupLabel(g.key),
          icon: this.want.groupBy === "directory" ? "folder" : this.want.groupBy === "agent" ? agentIcon(g.key) : "",
          rows: g.rows,
          section,
          parent,
          whole: false,
        };
        out.push(node);
        this.children.set(
          node.id,
          g.rows.map((r) => add(r, node)),
        );
      }
    }
    if (section.queries.some((q) => q.cursor !== undefined)) {
      out.push({ kind: "more", section, parent });
    }
    return out;
  }

  private groupLabel(key: string): string {
    switch (this.want.groupBy) {
      case "date":
        return {
          today: vscode.l10n.t("Today"),
          yesterday: vscode.l10n.t("Yesterday"),
          week: vscode.l10n.t("Last 7 Days"),
          month: vscode.l10n.t("Last 30 Days"),
          older: vscode.l10n.t("Older"),
        }[key] ?? vscode.l10n.t("Unknown");
      case "status":
        return statusLabel(key);
      case "directory":
        return key === "" ? vscode.l10n.t("Unknown") : baseName(key);
      case "agent":
      case "none":
        return key;
    }
  }

  /** The line above the list. */
  private say(): void {
    const parts: string[] = [];
    if (this.client.state === "restarting") {
      parts.push(this.client.why);
    }
    if (this.query !== "") {
      const n = [...this.nodes.values()].length;
      parts.push(n === 0 ? vscode.l10n.t("Nothing matches \"{0}\".", oneLine(this.query, 60)) : vscode.l10n.t("Filter: {0}", oneLine(this.query, 60)));
    }
    this.view.message = parts.join(" ");
    void vscode.commands.executeCommand("setContext", "agentLs.empty", this.nodes.size === 0);
  }

  getChildren(node?: Node): Node[] {
    if (node === undefined) {
      return this.roots;
    }
    return node.kind === "more" ? [] : (this.children.get(node.kind === "group" ? node.id : node.session.sessionId) ?? []);
  }

  getParent(node: Node): Node | undefined {
    return node.parent;
  }

  getTreeItem(node: Node): vscode.TreeItem {
    switch (node.kind) {
      case "group":
        return this.groupItem(node);
      case "more":
        return moreItem(node);
      case "session":
        return this.sessionItem(node);
    }
  }

  private groupItem(node: GroupNode): vscode.TreeItem {
    const item = new vscode.TreeItem(node.label, vscode.TreeItemCollapsibleState.Expanded);
    item.id = node.id;
    item.contextValue = "group";
    item.description = String(node.rows.length);
    if (node.icon !== "") {
      item.iconPath = new vscode.ThemeIcon(node.icon);
    }
    if (this.want.groupBy === "directory" && !node.whole) {
      item.tooltip = node.rows[0]?.cwd ?? "";
    }
    item.accessibilityInformation = { label: vscode.l10n.t("{0}, {1} sessions", node.label, node.rows.length) };
    return item;
  }

  private sessionItem(node: SessionNode): vscode.TreeItem {
    const s = node.session;
    const title = titleOf(s);
    const item = new vscode.TreeItem(title, (this.children.get(s.sessionId)?.length ?? 0) > 0 ? vscode.TreeItemCollapsibleState.Collapsed : vscode.TreeItemCollapsibleState.None);
    item.id = s.sessionId;
    item.resourceUri = rowUri(s.sessionId);
    item.contextValue = contextValue(s);
    const details = [age(s.updatedAt, Date.now()), s.model ?? s.gitBranch ?? "", s.archived === true ? vscode.l10n.t("archived") : ""];
    item.description = details
      .filter((d) => d !== "")
      .map((d) => oneLine(d, 40))
      .join(" · ");
    const color = { running: "charts.green", requires_action: "charts.yellow" }[s.status];
    item.iconPath = color === undefined ? new vscode.ThemeIcon(agentIcon(s.agent)) : new vscode.ThemeIcon(agentIcon(s.agent), new vscode.ThemeColor(color));
    item.tooltip = tooltip(s);
    item.command = { command: "agentLs.openTranscriptFile", title: vscode.l10n.t("Open Transcript File"), arguments: [node] };
    item.accessibilityInformation = {
      label: [title, statusLabel(s.status), item.description, s.unread === true ? vscode.l10n.t("unread") : ""].filter((x) => x !== "").join(", "),
      role: "treeitem",
    };
    return item;
  }

  provideFileDecoration(uri: vscode.Uri): vscode.FileDecoration | undefined {
    if (uri.scheme !== rowScheme) {
      return undefined;
    }
    const s = this.session(decodeURIComponent(uri.path.slice(1)));
    if (s === undefined) {
      return undefined;
    }
    const status = { running: "▶", requires_action: "?" }[s.status] ?? "";
    const badge = status + (s.unread === true ? "●" : "");
    if (badge === "") {
      return undefined;
    }
    const color = { running: "charts.green", requires_action: "charts.yellow" }[s.status] ?? "charts.blue";
    const words = [status === "" ? "" : statusLabel(s.status), s.unread === true ? vscode.l10n.t("unread") : ""].filter((w) => w !== "");
    return new vscode.FileDecoration(badge, words.join(", "), new vscode.ThemeColor(color));
  }
}

function rowUri(id: string): vscode.Uri {
  return vscode.Uri.from({ scheme: rowScheme, path: `/${encodeURIComponent(id)}` });
}

/** How many rows of a section are not loaded. */
function rest(section: Section): number {
  return Math.max(0, section.queries.reduce((n, q) => n + q.total, 0) - section.rows.size);
}

function moreItem(node: MoreNode): vscode.TreeItem {
  const item = new vscode.TreeItem(vscode.l10n.t("Load More…"), vscode.TreeItemCollapsibleState.None);
  item.id = `more/${node.section.name}`;
  item.description = vscode.l10n.t("{0} more", rest(node.section));
  item.iconPath = new vscode.ThemeIcon("ellipsis");
  item.contextValue = "more";
  item.command = { command: "agentLs.loadMore", title: vscode.l10n.t("Load More…"), arguments: [node] };
  return item;
}

/** What is shown as the name of a session. */
export function titleOf(s: Session): string {
  const title = oneLine(s.title ?? s.firstPrompt ?? "", 120);
  return title === "" ? vscode.l10n.t("Untitled session") : title;
}

/** A status in words. */
export function statusLabel(status: string): string {
  return (
    {
      running: vscode.l10n.t("Running"),
      requires_action: vscode.l10n.t("Waits for you"),
      idle: vscode.l10n.t("Idle"),
    }[status] ?? vscode.l10n.t("Unknown")
  );
}

/** Plain text: nothing of a transcript is taken for Markdown. */
function tooltip(s: Session): string {
  const lines: [string, string][] = [
    [vscode.l10n.t("Status"), statusLabel(s.status)],
    [vscode.l10n.t("Agent"), s.agent],
    [vscode.l10n.t("Model"), s.model ?? ""],
    [vscode.l10n.t("Branch"), s.gitBranch ?? ""],
    [vscode.l10n.t("Directory"), s.cwd === undefined ? "" : s.cwd + (s.cwdMissing === true ? ` (${vscode.l10n.t("missing")})` : "")],
    [vscode.l10n.t("Updated"), s.updatedAt === undefined ? "" : new Date(s.updatedAt).toLocaleString(vscode.env.language)],
    [vscode.l10n.t("Messages in the log"), s.counts === undefined ? "" : String(s.counts.physical)],
    [vscode.l10n.t("Messages in the conversation"), s.counts?.effective === undefined ? "" : String(s.counts.effective)],
    [vscode.l10n.t("Size"), bytes(s.size)],
    [vscode.l10n.t("Tags"), (s.tags ?? []).join(", ")],
    [vscode.l10n.t("Problems"), s.problems === undefined || s.problems === 0 ? "" : String(s.problems)],
    [vscode.l10n.t("Id"), s.nativeId],
  ];
  const last = s.lastPrompt === undefined ? "" : `\n\n${oneLine(s.lastPrompt, 200)}`;
  return `${titleOf(s)}\n\n${lines.flatMap(([name, value]) => (value === "" ? [] : [`${name}: ${oneLine(value, 200)}`])).join("\n")}${last}`;
}
