// Progress of work that takes minutes: a line that is written over on a terminal, else a line for
// every tenth of it, so that a log shows that something happens.

/** Counts to `total`; `label` says of what. */
export class BuildProgress {
  #label;
  #total;
  #done = 0;
  #told = 0;
  #startMs = performance.now();

  constructor(label, total) {
    this.#label = label;
    this.#total = total;
    if (total > 0) this.#tell();
  }

  /** One more is done. */
  advance() {
    this.#done += 1;
    const isTenth = Math.floor((10 * this.#done) / this.#total) > this.#told;
    if (process.stderr.isTTY || isTenth) this.#tell();
  }

  #tell() {
    this.#told = Math.floor((10 * this.#done) / this.#total);
    const seconds = ((performance.now() - this.#startMs) / 1000).toFixed(0);
    const text = `perigee: ${this.#label}: ${this.#done} of ${this.#total} files, ${seconds} s`;
    if (!process.stderr.isTTY) process.stderr.write(`${text}\n`);
    else process.stderr.write(`\r${text}${this.#done === this.#total ? "\n" : ""}`);
  }
}
