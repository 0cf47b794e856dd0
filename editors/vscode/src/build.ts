import { existsSync, readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import * as path from "node:path";
import * as vscode from "vscode";
import type { Parts } from "./commands";
import { builtServer } from "./server";

const module = "github.com/agent-ls/agent-ls";

/**
 * Builds the server with the user's Go: from the sources in the workspace, or
 * from the release that has this extension's version. Output goes to a task's
 * terminal; the program goes to the extension's own folder.
 */
export async function buildServer({ context, client }: Parts): Promise<void> {
  if (!vscode.workspace.isTrusted) {
    throw new Error(vscode.l10n.t("The server is built only in a trusted workspace."));
  }
  const target = builtServer(context);
  await mkdir(path.dirname(target), { recursive: true });
  const source = (vscode.workspace.workspaceFolders ?? []).map((f) => f.uri.fsPath).find(isSource);
  const { version } = context.extension.packageJSON as { version: string };
  const execution =
    source === undefined
      ? new vscode.ProcessExecution("go", ["install", `${module}/cmd/agent-ls@v${version}`], { env: { GOBIN: path.dirname(target) } })
      : new vscode.ProcessExecution("go", ["build", "-trimpath", "-o", target, "./cmd/agent-ls"], { cwd: source });
  const task = new vscode.Task({ type: "agentLs" }, vscode.TaskScope.Workspace, vscode.l10n.t("build the server"), "agent-ls", execution);
  const started = await vscode.tasks.executeTask(task);
  const code = await new Promise<number | undefined>((resolve) => {
    const listener = vscode.tasks.onDidEndTaskProcess((e) => {
      if (e.execution === started) {
        listener.dispose();
        resolve(e.exitCode);
      }
    });
  });
  if (code !== 0) {
    throw new Error(vscode.l10n.t("The server could not be built (go ended with code {0}). Go 1.26 or newer is needed.", String(code ?? "?")));
  }
  await client.restart();
}

function isSource(dir: string): boolean {
  const mod = path.join(dir, "go.mod");
  return existsSync(mod) && readFileSync(mod, "utf8").startsWith(`module ${module}\n`);
}
