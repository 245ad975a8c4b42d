import type { SingleBar } from "cli-progress";

/** A bar on a terminal; nothing in a pipe. */
export class Progress {
  readonly #bar: SingleBar | null;

  private constructor(bar: SingleBar | null) {
    this.#bar = bar;
  }

  /** `unit` is appended to the counts, e.g. " MB". */
  static async start(label: string, total: number, unit = ""): Promise<Progress> {
    if (!process.stderr.isTTY || total <= 1) return new Progress(null);
    const { default: cliProgress } = await import("cli-progress");
    const format = `${label} {bar} {value}/{total}${unit} {eta_formatted}`;
    const bar = new cliProgress.SingleBar({ format, stream: process.stderr, hideCursor: true });
    bar.start(total, 0);
    return new Progress(bar);
  }

  advance(by = 1): void {
    this.#bar?.increment(by);
  }

  set(value: number): void {
    this.#bar?.update(value);
  }

  stop(): void {
    this.#bar?.stop();
  }
}
