import * as vscode from "vscode";
import { message } from "./client";
import type { Client } from "./client";
import type { GroupBy, Sort } from "./model";
import type { Session } from "./protocol";
import { buildServer } from "./build";
import { configuration } from "./settings";
import { titleOf } from "./tree";
import type { MoreNode, Node, SessionTree } from "./tree";

/** What commands work on. */
export interface Parts {
  context: vscode.ExtensionContext;
  client: Client;
  tree: SessionTree;
}

type Handler = (parts: Parts, ...args: unknown[]) => Promise<unknown>;

/** Registers every command; what goes wrong is shown to the user. */
export function registerCommands(parts: Parts): vscode.Disposable[] {
  return Object.entries(handlers).map(([name, run]) =>
    vscode.commands.registerCommand(`agentLs.${name}`, async (...args: unknown[]) => {
      try {
        return await run(parts, ...args);
      } catch (error) {
        parts.client.log.error(`${name}: ${message(error)}`);
        void vscode.window.showErrorMessage(message(error));
        return undefined;
      }
    }),
  );
}

const handlers: Record<string, Handler> = {
  refresh: async ({ tree }) => {
    await tree.reload();
  },
  loadMore: async ({ tree }, node) => {
    await tree.more((node as MoreNode).section);
  },
  filter: async ({ tree }) => {
    await filter(tree);
  },
  clearFilter: async ({ tree }) => {
    tree.filter = "";
    return Promise.resolve();
  },
  groupBy: async () => {
    await choose("sessions.groupBy", vscode.l10n.t("Group sessions by"), [
      ["date", vscode.l10n.t("Date")],
      ["directory", vscode.l10n.t("Directory")],
      ["agent", vscode.l10n.t("Agent")],
      ["status", vscode.l10n.t("Status")],
      ["none", vscode.l10n.t("No Groups")],
    ]);
  },
  sortBy: async () => {
    await choose("sessions.sort", vscode.l10n.t("Sort sessions by"), [
      ["updated", vscode.l10n.t("Last Activity")],
      ["created", vscode.l10n.t("Creation")],
      ["size", vscode.l10n.t("Size")],
      ["title", vscode.l10n.t("Title")],
    ]);
  },
  showElsewhere: () => set("sessions.showElsewhere", true),
  hideElsewhere: () => set("sessions.showElsewhere", false),
  showArchived: () => set("sessions.showArchived", true),
  hideArchived: () => set("sessions.showArchived", false),
  restartServer: ({ client }) => client.restart(),
  showLog: async ({ client }) => {
    client.log.show();
    return Promise.resolve();
  },
  openServerSettings: async () => vscode.commands.executeCommand("workbench.action.openSettings", "agentLs.server"),
  buildServer: async (parts) => {
    await buildServer(parts);
  },
  openTranscriptFile: async ({ tree }, target) => {
    const s = await theSession(tree, target);
    if (s !== undefined) {
      await vscode.window.showTextDocument(vscode.Uri.parse(s.uri, true));
    }
  },
};

/** The filter box: the list follows what is typed; Escape puts back what was there. */
async function filter(tree: SessionTree): Promise<void> {
  const box = vscode.window.createInputBox();
  const before = tree.filter;
  box.title = vscode.l10n.t("Filter Sessions");
  box.placeholder = vscode.l10n.t("Title, prompt, id, branch or tag");
  box.value = before;
  await new Promise<void>((resolve) => {
    let accepted = false;
    let timer: NodeJS.Timeout | undefined;
    box.onDidChangeValue((value) => {
      clearTimeout(timer);
      timer = setTimeout(() => {
        tree.filter = value.trim();
      }, 150);
    });
    box.onDidAccept(() => {
      accepted = true;
      box.hide();
    });
    box.onDidHide(() => {
      clearTimeout(timer);
      tree.filter = accepted ? box.value.trim() : before;
      box.dispose();
      resolve();
    });
    box.show();
  });
}

async function choose(setting: string, title: string, items: [GroupBy | Sort, string][]): Promise<void> {
  const now = configuration().get<string>(setting);
  const pick = await vscode.window.showQuickPick(
    items.map(([value, label]) => ({ value, label, ...(value === now ? { description: vscode.l10n.t("current") } : {}) })),
    { title },
  );
  if (pick !== undefined) {
    await set(setting, pick.value);
  }
}

async function set(setting: string, value: unknown): Promise<void> {
  await configuration().update(setting, value, vscode.ConfigurationTarget.Global);
}

/** The session that a command is for: the row it came from, the selected one, or one that is picked. */
export async function theSession(tree: SessionTree, target: unknown): Promise<Session | undefined> {
  const node = (target ?? tree.view.selection[0]) as Node | undefined;
  if (node?.kind === "session") {
    return node.session;
  }
  return pickSession(tree);
}

async function pickSession(tree: SessionTree): Promise<Session | undefined> {
  const items = tree.loaded().map((session) => ({ label: titleOf(session), description: session.agent, session }));
  const pick = await vscode.window.showQuickPick(items, { title: vscode.l10n.t("Which session?"), matchOnDescription: true });
  return pick?.session;
}
