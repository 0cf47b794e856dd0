import * as vscode from "vscode";
import { CloseAction, ErrorAction, LanguageClient, State, TransportKind } from "vscode-languageclient/node";
import type { LanguageClientOptions, ServerOptions } from "vscode-languageclient/node";
import { Backoff } from "./backoff";
import type { Agent, Capabilities, Changed, Update } from "./protocol";
import type { Method, Params, Result } from "./requests";
import { findServer, NoServer, wireVersion } from "./server";
import type { Server } from "./server";
import { serverConfiguration } from "./settings";

export type ClientState = "starting" | "ready" | "restarting" | "failed" | "noServer" | "untrusted";

/** A place in a transcript: an entry that a follower has. */
export interface Place {
  id: string;
  offset: number;
}

/** Who follows a session. Updates can repeat entries that the follower has: they replace them. */
export interface Follower {
  update(update: Update): void;
  /** The transcript was rewritten (why: the server's word) or the server started anew: read and follow again. */
  lost(why: string): void;
}

interface Followed {
  followers: Set<Follower>;
  last: Place | undefined;
}

/**
 * The connection to the server: starts it, starts it again when it crashed,
 * and hands out what it says. There is one for each window.
 */
export class Client implements vscode.Disposable {
  private client: LanguageClient | undefined;
  private server: Server | undefined;
  private stateNow: ClientState = "starting";
  private whyNow = "";
  private readonly backoff = new Backoff();
  private timer: NodeJS.Timeout | undefined;
  private generation = 0;
  private readonly followed = new Map<string, Followed>();
  private readonly disposables: vscode.Disposable[] = [];
  private readonly stateEmitter = new vscode.EventEmitter<ClientState>();
  private readonly changedEmitter = new vscode.EventEmitter<Changed>();
  /** Fires when the state has changed. */
  readonly onDidChangeState = this.stateEmitter.event;
  /** Fires when the server says that sessions of the list have changed. */
  readonly onDidChangeSessions = this.changedEmitter.event;

  constructor(
    private readonly context: vscode.ExtensionContext,
    readonly log: vscode.LogOutputChannel,
  ) {
    this.disposables.push(
      this.stateEmitter,
      this.changedEmitter,
      vscode.workspace.onDidGrantWorkspaceTrust(() => void this.start()),
      vscode.workspace.onDidChangeConfiguration((e) => {
        if (e.affectsConfiguration("agentLs.server.path") || e.affectsConfiguration("agentLs.server.args") || e.affectsConfiguration("agentLs.watch.poll")) {
          void this.restart();
        } else if (e.affectsConfiguration("agentLs.stores") || e.affectsConfiguration("agentLs.server.logLevel")) {
          void this.client?.sendNotification("workspace/didChangeConfiguration", { settings: { agentLs: serverConfiguration() } });
        }
      }),
    );
  }

  get state(): ClientState {
    return this.stateNow;
  }

  /** Why there is no server, for the user; empty while there is one. */
  get why(): string {
    return this.whyNow;
  }

  /** The running server's program, version and origin. */
  get running(): Server | undefined {
    return this.stateNow === "ready" ? this.server : undefined;
  }

  /** What the server can do with the sessions of each agent. */
  get agents(): readonly Agent[] {
    return this.agentLs()?.agents ?? [];
  }

  /** Whether the server has a method. */
  has(method: string): boolean {
    return this.agentLs()?.methods.includes(method) ?? false;
  }

  private agentLs(): Capabilities["experimental"]["agentLs"] | undefined {
    const result = this.client?.initializeResult as { capabilities: Partial<Capabilities> } | undefined;
    return result?.capabilities.experimental?.agentLs;
  }

  /** Starts the server unless the workspace is not trusted. Never rejects: the state says how it went. */
  async start(): Promise<void> {
    clearTimeout(this.timer);
    const generation = ++this.generation;
    if (!vscode.workspace.isTrusted) {
      this.become("untrusted", vscode.l10n.t("The server starts when you trust this workspace."));
      return;
    }
    this.become(this.stateNow === "restarting" ? "restarting" : "starting");
    try {
      const server = await findServer(this.context);
      if (generation !== this.generation) {
        return;
      }
      this.log.info(`starting ${server.path} (${server.from}, version ${server.version})`);
      await this.launch(server, generation);
    } catch (error) {
      if (generation !== this.generation) {
        return;
      }
      this.log.error(error instanceof Error ? error : String(error));
      this.become(error instanceof NoServer ? "noServer" : "failed", message(error));
    }
  }

  /** Stops the server and starts it anew. */
  async restart(): Promise<void> {
    this.backoff.reset();
    await this.stop();
    await this.start();
  }

  private async launch(server: Server, generation: number): Promise<void> {
    const run = { command: server.path, args: server.args, transport: TransportKind.stdio };
    const serverOptions: ServerOptions = { run, debug: run };
    const options: LanguageClientOptions = {
      documentSelector: [{ scheme: "file", pattern: "**/*.jsonl" }],
      outputChannel: this.log,
      initializationOptions: serverConfiguration(),
      initializationFailedHandler: () => false,
      errorHandler: {
        error: () => ({ action: ErrorAction.Continue, handled: true }),
        closed: () => ({ action: CloseAction.DoNotRestart, handled: true }),
      },
    };
    const client = new LanguageClient("agentLs", "agent-ls", serverOptions, options);
    client.onNotification("session/update", (u: Update) => {
      this.updated(u);
    });
    client.onNotification("session/changed", (c: Changed) => {
      this.changedEmitter.fire(c);
    });
    client.onDidChangeState((e) => {
      if (e.newState === State.Stopped && generation === this.generation) {
        this.crashed();
      }
    });
    this.client = client;
    this.server = server;
    await client.start();
    if (generation !== this.generation) {
      return;
    }
    const speaks = this.agentLs()?.version;
    if (speaks !== wireVersion) {
      await this.stop();
      throw new NoServer(
        vscode.l10n.t("{0} (version {1}) speaks version {2} of the protocol; this extension needs version {3}.", server.path, server.version, String(speaks ?? "?"), String(wireVersion)),
      );
    }
    this.become("ready");
    for (const id of [...this.followed.keys()]) {
      this.lost(id, "restart");
    }
  }

  private crashed(): void {
    const { delay, count } = this.backoff.crashed(Date.now());
    this.generation++;
    this.client = undefined;
    this.log.warn(`the server has stopped (${String(count)} times lately); starting it again in ${String(delay)} ms`);
    this.become("restarting", vscode.l10n.t("The server has stopped and is started again."));
    this.timer = setTimeout(() => void this.start(), delay);
    if (count === 3) {
      const show = vscode.l10n.t("Show Log");
      const again = vscode.l10n.t("Restart Server");
      void vscode.window.showErrorMessage(vscode.l10n.t("The agent-ls server has stopped three times in three minutes. It is started again, less and less often."), show, again).then((pick) => {
        if (pick === show) {
          this.log.show();
        } else if (pick === again) {
          void this.restart();
        }
      });
    }
  }

  private become(state: ClientState, why = ""): void {
    this.stateNow = state;
    this.whyNow = why;
    void vscode.commands.executeCommand("setContext", "agentLs.state", state);
    this.stateEmitter.fire(state);
  }

  /** Sends a request. Rejects with the server's error, or when it does not run. */
  async request<M extends Method>(method: M, params: Params<M>, token?: vscode.CancellationToken): Promise<Result<M>> {
    const client = this.client;
    if (client === undefined || this.stateNow !== "ready") {
      throw new Error(this.whyNow === "" ? vscode.l10n.t("The agent-ls server does not run yet.") : this.whyNow);
    }
    return token === undefined ? client.sendRequest<Result<M>>(method, params) : client.sendRequest<Result<M>>(method, params, token);
  }

  /**
   * Follows a session from the entry that the follower has last (from its
   * start if undefined). The server keeps one subscription for each session;
   * several followers share it.
   */
  async follow(sessionId: string, after: Place | undefined, follower: Follower): Promise<vscode.Disposable> {
    let f = this.followed.get(sessionId);
    if (f === undefined) {
      f = { followers: new Set(), last: after };
      this.followed.set(sessionId, f);
    } else if (f.last !== undefined && (after === undefined || after.offset < f.last.offset)) {
      f.last = after;
    }
    f.followers.add(follower);
    const disposable = new vscode.Disposable(() => {
      this.unfollow(sessionId, follower);
    });
    try {
      await this.subscribe(sessionId, f);
    } catch (error) {
      disposable.dispose();
      throw error;
    }
    return disposable;
  }

  private async subscribe(sessionId: string, f: Followed): Promise<void> {
    await this.request("session/subscribe", { sessionId, maxBlock: shownBlock, ...(f.last === undefined ? {} : { after: f.last.id }) });
  }

  private unfollow(sessionId: string, follower: Follower): void {
    const f = this.followed.get(sessionId);
    f?.followers.delete(follower);
    if (f?.followers.size === 0) {
      this.followed.delete(sessionId);
      this.request("session/unsubscribe", { sessionId }).catch(() => undefined);
    }
  }

  private updated(u: Update): void {
    const f = this.followed.get(u.sessionId);
    if (f === undefined) {
      return;
    }
    if (u.reset !== undefined) {
      this.lost(u.sessionId, u.reset);
      return;
    }
    const last = u.entries.at(-1);
    if (last !== undefined && (f.last === undefined || last.offset > f.last.offset)) {
      f.last = { id: last.id, offset: last.offset };
    }
    for (const follower of [...f.followers]) {
      follower.update(u);
    }
  }

  /** Tells the followers of a session to read again; each follows anew when it has. */
  private lost(sessionId: string, why: string): void {
    const f = this.followed.get(sessionId);
    this.followed.delete(sessionId);
    for (const follower of f?.followers ?? []) {
      follower.lost(why);
    }
  }

  private async stop(): Promise<void> {
    clearTimeout(this.timer);
    this.generation++;
    const client = this.client;
    this.client = undefined;
    try {
      await client?.stop();
    } catch (error) {
      this.log.debug(`stopping the server: ${message(error)}`);
    }
  }

  dispose(): void {
    void this.stop();
    for (const d of this.disposables) {
      d.dispose();
    }
  }
}

/** Longest block that transcripts are read with, in bytes; the rest comes on demand. */
export const shownBlock = 32 << 10;

/** The words of an error. */
export function message(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
