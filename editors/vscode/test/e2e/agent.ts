import { spawn } from "node:child_process";
import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { randomUUID } from "node:crypto";
import * as path from "node:path";
import { createInterface } from "node:readline";
import type { Interface } from "node:readline";

/** A process of its own that writes transcripts, as an agent would. */
export class Writer {
  private readonly child: ChildProcessWithoutNullStreams;
  private readonly answers: Interface;
  private queue: Promise<unknown> = Promise.resolve();

  constructor(script: string) {
    this.child = spawn(process.execPath, [script]);
    this.child.stderr.pipe(process.stderr);
    this.answers = createInterface({ input: this.child.stdout });
  }

  private send(command: object): Promise<void> {
    const done = this.queue.then(
      () =>
        new Promise<void>((resolve, reject) => {
          this.answers.once("line", () => {
            resolve();
          });
          this.child.once("exit", reject);
          this.child.stdin.write(`${JSON.stringify(command)}\n`);
        }),
    );
    this.queue = done;
    return done;
  }

  append(file: string, text: string): Promise<void> {
    return this.send({ op: "append", file, text });
  }

  write(file: string, text: string): Promise<void> {
    return this.send({ op: "write", file, text });
  }

  /** Appends text with $LONG replaced by size letters. */
  long(file: string, text: string, size: number): Promise<void> {
    return this.send({ op: "long", file, text, size });
  }

  stop(): void {
    this.child.stdin.end();
  }
}

/** A Claude Code transcript in the making. */
export class ClaudeSession {
  readonly file: string;
  private parent: string | null = null;
  private turn = 0;

  constructor(
    private readonly writer: Writer,
    home: string,
    readonly cwd: string,
    readonly id: string = randomUUID(),
    private now: number = Date.now(),
    private readonly model = "claude-opus-5-5",
  ) {
    this.file = path.join(home, ".claude", "projects", cwd.replace(/[^A-Za-z0-9]/g, "-"), `${id}.jsonl`);
  }

  /** The id of the last line. */
  get last(): string | null {
    return this.parent;
  }

  /** Lets the next line hang on another one. */
  rewind(id: string | null): void {
    this.parent = id;
  }

  private line(fields: object): string {
    const uuid = randomUUID();
    const text = JSON.stringify({
      parentUuid: this.parent,
      isSidechain: false,
      userType: "external",
      cwd: this.cwd,
      sessionId: this.id,
      version: "2.1.332",
      gitBranch: "main",
      ...fields,
      uuid,
      timestamp: new Date((this.now += 1000)).toISOString(),
    });
    this.parent = uuid;
    return `${text}\n`;
  }

  user(content: unknown): string {
    return this.line({ type: "user", message: { role: "user", content } });
  }

  assistant(content: string | object[], stop: string | null = "end_turn"): string {
    const id = `msg_${this.id.slice(0, 8)}_${String(++this.turn)}`;
    return this.line({
      type: "assistant",
      requestId: `req_${String(this.turn)}`,
      message: {
        id,
        type: "message",
        role: "assistant",
        model: this.model,
        content: typeof content === "string" ? [{ type: "text", text: content }] : content,
        stop_reason: stop,
        usage: { input_tokens: 120, cache_creation_input_tokens: 10, cache_read_input_tokens: 2000, output_tokens: 40 },
      },
    });
  }

  tool(id: string, name: string, input: object): string {
    return this.assistant([{ type: "tool_use", id, name, input }], "tool_use");
  }

  result(id: string, content: unknown, isError = false): string {
    return this.user([{ type: "tool_result", tool_use_id: id, content, ...(isError ? { is_error: true } : {}) }]);
  }

  system(fields: object): string {
    return this.line({ type: "system", ...fields });
  }

  /** Writes lines that this session has made. */
  async write(...lines: string[]): Promise<this> {
    await this.writer.append(this.file, lines.join(""));
    return this;
  }
}
