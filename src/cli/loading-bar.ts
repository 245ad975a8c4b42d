import type { LoadProgress } from "#engine";
import { Progress } from "./progress.ts";

const labels: Readonly<Record<LoadProgress["part"], string>> = {
  kernels: "Compiling GPU kernels",
};

/** Shows the parts of loading that take long: a bar on a terminal, nothing in a pipe. */
export class LoadingBar {
  #bar: Promise<Progress> | null = null;
  #stopped = false;

  show({ part, done, total }: LoadProgress): void {
    this.#bar ??= Progress.start(labels[part], total);
    void this.#bar.then((bar) => {
      if (!this.#stopped) bar.set(done);
    });
  }

  /** The line stays as it is. */
  stop(): void {
    this.#stopped = true;
    void this.#bar?.then((bar) => bar.stop());
  }
}
