import * as vscode from "vscode";
import type { Configuration, StoreConfig } from "./protocol";

/** The settings of this extension. */
export function configuration(): vscode.WorkspaceConfiguration {
  return vscode.workspace.getConfiguration("agentLs");
}

/** The part of the settings that the server reads. */
export function serverConfiguration(): Configuration {
  const c = configuration();
  const poll = c.get<string>("watch.poll", "auto");
  const stores: Record<string, StoreConfig> = c.get<Record<string, StoreConfig>>("stores", {});
  return { stores, watch: { poll }, log: { level: c.get<string>("server.logLevel", "warn") } };
}
