import type { LoadProgress } from "#engine";
import { Progress } from "./progress.ts";

type Part = LoadProgress["part"];

const MEGABYTE = 1e6;

/** Label of each part, and the unit of its counts. */
const labels: Readonly<Record<Part, { readonly label: string; readonly unit?: string }>> = {
  kernels: { label: "Compiling GPU kernels" },
  weights: { label: "Loading weights", unit: " MB" },
  graphs: { label: "Capturing GPU graphs" },
};

/** Shows the slow parts of loading: a bar each on a terminal, nothing in a pipe. */
export class LoadingBar {
  #part: Part | null = null;
  /** The bar of the current part, after the earlier bars have stopped. */
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

  /** Stops updating; the last line stays visible. */
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
