import cliProgress from "cli-progress";

/** A bar on a terminal; nothing in a pipe. */
export class Progress {
  readonly #bar: cliProgress.SingleBar | null;

  /** `unit` is appended to the counts, e.g. " MB". */
  constructor(label: string, total: number, unit = "") {
    if (!process.stderr.isTTY || total <= 1) {
      this.#bar = null;
      return;
    }
    const format = `${label} {bar} {value}/{total}${unit} {eta_formatted}`;
    this.#bar = new cliProgress.SingleBar({ format, stream: process.stderr, hideCursor: true });
    this.#bar.start(total, 0);
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
