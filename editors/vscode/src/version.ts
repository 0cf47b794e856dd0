/** The version in what `agent-ls version` prints; undefined if it is another program's. */
export function parseVersion(output: string): string | undefined {
  return /^agent-ls\s+(\S+)/.exec(output)?.[1];
}
