import { execFile } from "node:child_process";
import { constants } from "node:fs";
import { access } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import { configuration } from "./settings";
import { parseVersion } from "./version";

/** The version of the wire contract that this extension speaks. */
export const wireVersion = 1;

/** A server that can be started. */
export interface Server {
  path: string;
  args: string[];
  /** What `agent-ls version` says. */
  version: string;
  from: "setting" | "bundled" | "built" | "path";
}

/** Why no server can be started, in words for the user. */
export class NoServer extends Error {}

const exe = process.platform === "win32" ? "agent-ls.exe" : "agent-ls";

/** Where a server that was built from source is put. */
export function builtServer(context: vscode.ExtensionContext): string {
  return path.join(context.globalStorageUri.fsPath, "bin", exe);
}

/**
 * Finds the server: the setting, then the one inside the extension, then one
 * that was built from source, then PATH. Throws NoServer.
 */
export async function findServer(context: vscode.ExtensionContext): Promise<Server> {
  const args = ["serve", "--stdio", ...configuration().get<string[]>("server.args", [])];
  const set = expandHome(configuration().get<string>("server.path", "").trim());
  if (set !== "") {
    if (!path.isAbsolute(set)) {
      throw new NoServer(vscode.l10n.t("The setting agentLs.server.path must be an absolute path, but is \"{0}\".", set));
    }
    const version = await versionOf(set);
    if (version instanceof Error) {
      throw new NoServer(vscode.l10n.t("The server of the setting agentLs.server.path cannot be used: {0}", version.message));
    }
    return { path: set, args, version, from: "setting" };
  }
  const places: [string, Server["from"]][] = [
    [path.join(context.extensionPath, "bin", exe), "bundled"],
    [builtServer(context), "built"],
    ...onPath().map((p): [string, Server["from"]] => [p, "path"]),
  ];
  let why = vscode.l10n.t("There is no agent-ls in the extension or on the PATH.");
  for (const [candidate, from] of places) {
    if (!(await executable(candidate))) {
      continue;
    }
    const version = await versionOf(candidate);
    if (!(version instanceof Error)) {
      return { path: candidate, args, version, from };
    }
    why = version.message;
  }
  throw new NoServer(why);
}

function expandHome(p: string): string {
  const home = process.env.HOME ?? process.env.USERPROFILE;
  return home !== undefined && /^~[/\\]/.test(p) ? path.join(home, p.slice(2)) : p;
}

function onPath(): string[] {
  return (process.env.PATH ?? "")
    .split(path.delimiter)
    .filter((dir) => path.isAbsolute(dir))
    .map((dir) => path.join(dir, exe));
}

async function executable(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Asks a program for its version, to know that it is agent-ls before it is spoken to. */
function versionOf(file: string): Promise<string | Error> {
  return new Promise((resolve) => {
    execFile(file, ["version"], { timeout: 10_000, windowsHide: true }, (error, stdout) => {
      const version = parseVersion(stdout);
      if (error !== null) {
        resolve(new Error(`${file}: ${error.message.split("\n", 1)[0] ?? ""}`));
      } else if (version === undefined) {
        resolve(new Error(vscode.l10n.t("{0} is not agent-ls.", file)));
      } else {
        resolve(version);
      }
    });
  });
}
