/** The one place that knows agents by name: their icons. */
const icons: Record<string, string> = {
  claude: "sparkle",
  pseudoclaude: "beaker",
  "mini-agent": "circuit-board",
  codex: "terminal",
  gemini: "star-empty",
  copilot: "copilot",
  pi: "symbol-constant",
  qwen: "globe",
  kimi: "lightbulb",
};

/** The product icon of an agent. */
export function agentIcon(agent: string): string {
  return icons[agent] ?? "comment-discussion";
}
