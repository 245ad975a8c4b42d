import type { LoadProgress } from "#engine";
import { Progress } from "./progress.ts";

type Part = LoadProgress["part"];

const MEGABYTE = 1e6;

/** How a part is called, and what is counted. */
const labels: Readonly<Record<Part, { readonly label: string; readonly unit?: string }>> = {
  kernels: { label: "Compiling GPU kernels" },
  weights: { label: "Loading weights", unit: " MB" },
  graphs: { label: "Capturing GPU graphs" },
};

/** Shows the parts of loading that take long: a bar each on a terminal, nothing in a pipe. */
export class LoadingBar {
  #part: Part | null = null;
  /** What was shown so far, and the bar of the current part. */
  #bar: Promise<Progress> | null = null;
  #stopped = false;

  show({ part, done, total }: LoadProgress): void {
    const { label, unit } = labels[part];
    const scale = unit === undefined ? 1 : MEGABYTE;
    if (part !== this.#part) {
      this.#part = part;
      this.#bar = this.#next(label, Math.round(total / scale), unit);
    }
    void this.#bar?.then((bar) => {
      if (!this.#stopped) bar.set(Math.round(done / scale));
    });
  }

  /** The line stays as it is. */
  stop(): void {
    this.#stopped = true;
    void this.#bar?.then((bar) => bar.stop());
    this.#bar = null;
  }

  /** A new bar, below the last one. */
  async #next(label: string, total: number, unit: string | undefined): Promise<Progress> {
    (await this.#bar)?.stop();
    return Progress.start(label, total, unit);
  }
}
