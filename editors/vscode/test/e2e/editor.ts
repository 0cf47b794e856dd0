import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import * as path from "node:path";
import { chromium } from "playwright-core";
import type { Browser, BrowserContext, FrameLocator, Locator, Page } from "playwright-core";

/** Where the compiled tests run: editors/vscode. */
export const root = process.cwd();

const env = (name: string): string => {
  const value = process.env[name];
  if (value === undefined || value === "") {
    throw new Error(`${name} is not set; run .ci/test-vscode.sh`);
  }
  return value;
};

async function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const s = createServer();
    s.once("error", reject);
    s.listen(0, "127.0.0.1", () => {
      const address = s.address();
      s.close(() => {
        resolve(typeof address === "object" && address !== null ? address.port : 0);
      });
    });
  });
}

/** Waits until a condition holds; the error says what was waited for. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, timeout = 20_000): Promise<void> {
  const end = Date.now() + timeout;
  for (;;) {
    if (await condition()) {
      return;
    }
    if (Date.now() > end) {
      throw new Error(`timed out: ${what}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}

/** A home, a workspace and the extension, and a real VS Code that has them. */
export class Editor {
  readonly base = realpathSync(mkdtempSync(path.join(tmpdir(), "agent-ls-vscode-")));
  readonly home = path.join(this.base, "home");
  readonly workspace = path.join(this.base, "shop");
  readonly bin = path.join(this.base, "bin");
  private readonly user = path.join(this.base, "user");
  private readonly extensions = path.join(this.base, "extensions");
  private server: ChildProcess | undefined;
  private browser: Browser | undefined;
  private context: BrowserContext | undefined;
  private port = 0;
  private log = "";
  page!: Page;

  constructor(private readonly options: { settings?: object; trust?: boolean } = {}) {
    for (const dir of [this.home, this.workspace, this.bin, this.user, this.extensions]) {
      mkdirSync(dir, { recursive: true });
    }
    const manifest = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { publisher: string; name: string; version: string };
    const into = path.join(this.extensions, `${manifest.publisher}.${manifest.name}-${manifest.version}`);
    for (const part of ["package.json", "package.nls.json", "package.nls.zh-cn.json", "dist", "media", "l10n", "README.md", "CHANGELOG.md"]) {
      if (existsSync(path.join(root, part))) {
        cpSync(path.join(root, part), path.join(into, part), { recursive: true });
      }
    }
    mkdirSync(path.join(into, "bin"));
    cpSync(env("AGENT_LS"), path.join(into, "bin", "agent-ls"));
    this.settings(options.settings ?? {});
  }

  /** Writes the user's settings. */
  settings(more: object): void {
    mkdirSync(path.join(this.user, "User"), { recursive: true });
    const settings = {
      "workbench.startupEditor": "none",
      "workbench.tips.enabled": false,
      "workbench.layoutControl.enabled": false,
      "chat.commandCenter.enabled": false,
      "window.commandCenter": false,
      "telemetry.telemetryLevel": "off",
      "extensions.ignoreRecommendations": true,
      "git.enabled": false,
      "terminal.integrated.gpuAcceleration": "off",
      "workbench.enableExperiments": false,
      "workbench.accounts.experimental.showEntitlements": false,
      ...more,
    };
    writeFileSync(path.join(this.user, "User", "settings.json"), JSON.stringify(settings, null, 2));
  }

  async start(): Promise<this> {
    this.port = await freePort();
    const entry = path.join(env("CODE_SERVER"), "node_modules", "code-server", "out", "node", "entry.js");
    const args = [entry, "--auth", "none", "--bind-addr", `127.0.0.1:${String(this.port)}`, "--user-data-dir", this.user, "--extensions-dir", this.extensions, "--disable-telemetry", "--disable-update-check"];
    if (this.options.trust !== true) {
      args.push("--disable-workspace-trust");
    }
    // Only what the editor needs: no variable of the machine that runs the tests.
    const clean: NodeJS.ProcessEnv = {
      HOME: this.home,
      PATH: `${this.bin}:${process.env.PATH ?? ""}`,
      SHELL: "/bin/bash",
      LANG: "C.UTF-8",
      USER: "dev",
      XDG_STATE_HOME: path.join(this.home, ".local", "state"),
      XDG_DATA_HOME: path.join(this.home, ".local", "share"),
      XDG_CACHE_HOME: path.join(this.home, ".cache"),
    };
    this.server = spawn(process.execPath, [...args, this.workspace], { cwd: this.base, env: clean, stdio: ["ignore", "pipe", "pipe"] });
    const keep = (chunk: Buffer): void => {
      this.log = (this.log + chunk.toString()).slice(-20_000);
    };
    this.server.stdout?.on("data", keep);
    this.server.stderr?.on("data", keep);
    await until("code-server listens", async () => {
      try {
        return (await fetch(`http://127.0.0.1:${String(this.port)}/healthz`)).ok;
      } catch {
        return false;
      }
    }, 60_000);
    this.browser = await chromium.launch({
      executablePath: env("CHROMIUM"),
      args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
    });
    this.context = await this.browser.newContext({ viewport: { width: 1280, height: 800 } });
    await this.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: this.origin });
    this.page = await this.context.newPage();
    await this.open();
    return this;
  }

  get origin(): string {
    return `http://127.0.0.1:${String(this.port)}`;
  }

  /** Opens (or reloads) the window and waits for the workbench. */
  async open(): Promise<void> {
    await this.page.goto(`${this.origin}/?folder=${encodeURIComponent(this.workspace)}`);
    await this.page.locator(".monaco-workbench").waitFor({ timeout: 60_000 });
  }

  /** Shows the sidebar of the extension. */
  async sidebar(): Promise<void> {
    const view = this.page.locator('.sidebar .composite.title', { hasText: "Agent Sessions" }).first();
    if (!(await view.isVisible())) {
      await this.page.locator('.activitybar [aria-label^="Agent Sessions"]').first().click({ timeout: 60_000 });
      await view.waitFor();
    }
  }

  /** Rows of the sidebar. */
  rows(text?: string | RegExp): Locator {
    const rows = this.page.locator('.sidebar .monaco-list-row[role="treeitem"]');
    return text === undefined ? rows : rows.filter({ hasText: text });
  }

  /** Runs a command by its title through the command palette. */
  async command(title: string): Promise<void> {
    await this.page.keyboard.press("F1");
    const input = this.page.locator(".quick-input-widget input[type=text]");
    await input.waitFor();
    await input.fill(`>${title}`);
    const row = this.page.locator(".quick-input-widget .monaco-list-row").filter({ hasText: title.replace(/^.*: /, "") }).first();
    await row.waitFor();
    await row.click();
  }

  /** The quick pick or input box. */
  quick(): { input: Locator; rows: Locator } {
    const widget = this.page.locator(".quick-input-widget");
    return { input: widget.locator("input[type=text]"), rows: widget.locator(".monaco-list-row") };
  }

  /** The content of the visible webview. */
  transcript(): FrameLocator {
    return this.page.frameLocator("iframe.webview.ready").frameLocator("iframe#active-frame");
  }

  /** Keeps a picture of the window. */
  async shot(name: string): Promise<void> {
    const dir = path.join(root, "artifacts");
    mkdirSync(dir, { recursive: true });
    await this.page.screenshot({ path: path.join(dir, `${name}.png`) });
  }

  /** What code-server and the extension logged, for a failed test. */
  logs(): string {
    return this.log;
  }

  /** The processes of agent-ls that this editor has started. */
  servers(): number[] {
    const listed = readProcesses();
    return listed.filter((p) => p.exe.startsWith(this.base)).map((p) => p.pid);
  }

  async stop(): Promise<void> {
    await this.browser?.close();
    this.server?.kill("SIGTERM");
    await until("the server has gone", () => this.servers().length === 0, 10_000).catch(() => undefined);
    rmSync(this.base, { recursive: true, force: true, maxRetries: 5 });
  }
}

function readProcesses(): { pid: number; exe: string }[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) {
      return [];
    }
    try {
      return [{ pid: Number(name), exe: readlinkSync(`/proc/${name}/exe`) }];
    } catch {
      return [];
    }
  });
}
