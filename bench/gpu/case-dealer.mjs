/**
 * Deals cases out to processes, each of which has a device of its own. A process that dies, or
 * takes too long, costs the case it was in and no other.
 */
import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const workerFile = fileURLToPath(new URL("./case-worker.mjs", import.meta.url));

/** A process that dies so often has a GPU that nobody can work with. */
const deathsMax = 3;

/** One process, and the one thing that it was asked for. */
class CaseWorker {
  #child;
  #settle = () => {};

  constructor(work) {
    // Results hold NaN and infinities, which JSON does not.
    this.#child = fork(workerFile, [JSON.stringify(work)], { serialization: "advanced" });
    this.#child.on("message", (message) => this.#settle({ message }));
    this.#child.on("error", (error) => this.#settle({ death: error.message }));
    this.#child.on("exit", (code, signal) =>
      this.#settle({ death: `its process ended with ${signal ?? code}` }),
    );
  }

  /** `{ message }` of the process; `{ death }`, why there is none, behind which it is no more. */
  answer(milliseconds, place) {
    return new Promise((resolve) => {
      const late = setTimeout(() => {
        this.stop();
        resolve({ death: `no answer within ${(milliseconds / 1000).toFixed(0)} s` });
      }, milliseconds);
      this.#settle = (answer) => {
        clearTimeout(late);
        resolve(answer);
      };
      // A failure to send has an event, too.
      if (place !== undefined) this.#child.send(place, () => {});
    });
  }

  stop() {
    this.#child.kill("SIGKILL");
  }
}

/** Deals until all cases have run, or no time is left. */
export class CaseDealer {
  #cases;
  #options;
  #next = 0;
  #deadline;

  /**
   * `work`: what a process is told; `limits`: seconds of all cases and of each; `onBegin(case)` and
   * `onResult(result)`: as they come.
   */
  constructor(cases, options) {
    this.#cases = cases;
    this.#options = options;
    this.#deadline = performance.now() + options.limits.all * 1000;
  }

  /** How many cases did not begin. */
  async run() {
    const lanes = Math.min(this.#options.jobs, this.#cases.length);
    await Promise.all(Array.from({ length: lanes }, () => this.#lane()));
    return this.#cases.length - this.#next;
  }

  /** One process after another: the next one when one has died. */
  async #lane() {
    for (let deaths = 0; deaths < deathsMax && this.#hasWork(); deaths++) {
      const worker = new CaseWorker(this.#options.work);
      const { death } = await worker.answer(this.#patienceMs());
      if (death === undefined) await this.#serve(worker);
      else this.#fail({ op: "open", name: "a device of its own" }, death);
      worker.stop();
    }
  }

  /** Feeds a process for as long as it can be trusted. */
  async #serve(worker) {
    while (this.#hasWork()) {
      const place = this.#next++;
      const { op, name } = this.#cases[place];
      this.#options.onBegin({ op, name });
      const { message, death } = await worker.answer(this.#patienceMs(), place);
      if (death !== undefined) return this.#fail({ op, name }, death);
      this.#options.onResult(message);
      if (message.broken) return;
    }
  }

  #fail(each, death) {
    const verdicts = [{ error: Number.NaN, excess: Number.POSITIVE_INFINITY, detail: death }];
    this.#options.onResult({ ...each, verdicts, stack: null, seconds: 0 });
  }

  #hasWork() {
    return this.#next < this.#cases.length && performance.now() < this.#deadline;
  }

  #patienceMs() {
    const left = this.#deadline - performance.now();
    return Math.max(0, Math.min(left, this.#options.limits.each * 1000));
  }
}
