import type { PullProgress } from "#checkpoint";
import { Progress } from "./progress.ts";

const MEGABYTE = 1e6;

/** Progress of a download in megabytes; the total is known once it has begun. */
export class DownloadBar {
  readonly #name: string;
  #progress: Promise<Progress> | null = null;

  constructor(name: string) {
    this.#name = name;
  }

  show({ doneBytes, totalBytes }: PullProgress): void {
    this.#progress ??= Progress.start(this.#name, Math.ceil(totalBytes / MEGABYTE), " MB");
    void this.#progress.then((progress) => progress.set(Math.floor(doneBytes / MEGABYTE)));
  }

  async stop(): Promise<void> {
    (await this.#progress)?.stop();
  }
}
