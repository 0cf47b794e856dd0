/**
 * Makes characters visible that could deceive a reader: controls but tab and
 * line feed, escape sequences, bidirectional controls, invisible separators.
 */
export function visible(text: string): string {
  return text.replace(hidden, (c) => {
    const code = c.codePointAt(0) ?? 0;
    if (code < 0x20) {
      return String.fromCodePoint(0x2400 + code);
    }
    if (code === 0x7f) {
      return "\u2421";
    }
    return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
}

// C0 but tab, line feed (and a carriage return before one), DEL, C1; marks,
// embeddings, overrides and isolates of direction; zero-width space, line and paragraph separators, word
// joiner and its kin, byte order mark; tag characters.
// eslint-disable-next-line no-control-regex -- they are what is looked for
const hidden = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)|[\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]|[\u{e0000}-\u{e007f}]/gu;

/** One line of text, at most n characters, for places that hold one line. */
export function oneLine(text: string, n: number): string {
  const line = visible(text.slice(0, 4 * n).replace(/\s+/gu, " ").trim());
  const chars = Array.from(line);
  return chars.length <= n ? line : `${chars.slice(0, n - 1).join("")}…`;
}
