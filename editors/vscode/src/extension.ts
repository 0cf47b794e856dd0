import * as vscode from "vscode";
import { Client } from "./client";
import { registerCommands } from "./commands";
import { SessionTree } from "./tree";

/** Wires the parts together. The server starts in the background. */
export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("agent-ls", { log: true });
  const client = new Client(context, log);
  const tree = new SessionTree(client);
  context.subscriptions.push(log, client, tree, ...registerCommands({ context, client, tree }));
  void client.start();
}
