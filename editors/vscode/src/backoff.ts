/** Decides when to start a crashed server again. Pure: the caller gives the time in ms. */
export class Backoff {
  private crashes: number[] = [];

  /** @param window crashes longer ago than this many ms are forgotten */
  constructor(
    private readonly window = 180_000,
    private readonly first = 250,
    private readonly longest = 30_000,
  ) {}

  /** Notes a crash. The delay in ms until the next start, and how many crashes there were lately. */
  crashed(now: number): { delay: number; count: number } {
    this.crashes = this.crashes.filter((t) => now - t < this.window);
    this.crashes.push(now);
    const count = this.crashes.length;
    return { delay: Math.min(this.longest, this.first * 2 ** (count - 1)), count };
  }

  /** Forgets all crashes, as when the user starts the server by hand. */
  reset(): void {
    this.crashes = [];
  }
}
