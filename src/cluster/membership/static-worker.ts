import { messageOf } from "#base";
import { isUnanswered, SaidOnce } from "#cluster/http";
import type { Member, WorkerState } from "#cluster/protocol";
import {
  checkHealth,
  LOADING,
  type ProbeTarget,
  probeWorker,
  readReport,
  withModels,
} from "./probe.ts";

/** Checks that fail before a worker is unreachable: one may be lost. */
const FAILURES_MAX = 2;
const RETRY_MS_MIN = 500;
const RETRY_MS_MAX = 10_000;
const CHECK_MS = 2000;
/** A worker of another engine is asked for its models at each so many checks. */
const MODELS_EACH = 3;

/** What becomes known of a worker, and the lines about it. */
export interface StaticWorkerEvents {
  readonly onMember: (member: Member) => void;
  readonly warn: (message: string) => void;
  /** Receives what is no trouble. */
  readonly say: (message: string) => void;
}

/** A worker that is given by URL: asked what it is until it answers, then checked for ever. */
export class StaticWorker {
  readonly #target: ProbeTarget;
  readonly #events: StaticWorkerEvents;
  readonly #checkMs: number;
  readonly #stop = new AbortController();
  readonly #done: Promise<void>;
  /** Null: it has not answered yet. */
  #member: Member | null = null;
  #failures = 0;
  /** When someone else heard of it last, by `performance.now()`. */
  #heardMs = Number.NEGATIVE_INFINITY;
  #starts = 0;
  #checks = 0;
  /** What was said since it was well: while it starts, one reason follows another and back. */
  readonly #said = new SaidOnce();

  constructor(target: ProbeTarget, events: StaticWorkerEvents, checkMs = CHECK_MS) {
    this.#target = { ...target, signal: this.#stop.signal };
    this.#events = events;
    this.#checkMs = checkMs;
    this.#done = this.#run();
  }

  get url(): string {
    return this.#target.url;
  }

  /** It answered someone else: as good as a check, but for one that is held to be away. */
  heard(member: Member): void {
    const { state, info } = this.#member ?? {};
    if (state === undefined || state === "unreachable" || this.#failures > 0) return;
    if (info?.epoch !== member.info.epoch) return;
    this.#heardMs = performance.now();
    this.#tell(member);
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#done;
  }

  async #run(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      const restMs = this.#heardMs + this.#checkMs - performance.now();
      if (restMs > 0) {
        await this.#sleep(restMs);
        continue;
      }
      try {
        await this.#check();
        this.#failures = 0;
        this.#well();
      } catch (error) {
        if (this.#stop.signal.aborted) return;
        this.#failed(messageOf(error));
      }
      await this.#sleep(this.#nextMs());
    }
  }

  async #check(): Promise<void> {
    const known = this.#member;
    if (known === null || known.state === "unreachable") {
      await this.#probe();
    } else if (known.info.kind === "perigee") {
      const report = await readReport(this.#target);
      if (report === null) await this.#probe();
      else this.#tell(report);
    } else {
      await checkHealth(this.#target, known.info.kind);
      this.#checks++;
      if (this.#checks % MODELS_EACH === 0) await this.#look(known);
    }
  }

  /** An engine loads and unloads adapters while it runs. Another model: it is another start. */
  async #look({ info, state }: Member): Promise<void> {
    const now = await withModels(this.#target, info);
    if (now.models[0] !== info.models[0]) await this.#probe();
    else this.#tell({ info: now, state });
  }

  /** A foreign server that was away may have started anew: it gets a new epoch. */
  async #probe(): Promise<void> {
    this.#starts++;
    const worker = await probeWorker(this.#target, `${this.#starts}`);
    this.#tell(worker);
  }

  #tell({ info, state }: Member): void {
    this.#member = { info, state };
    this.#events.onMember(this.#member);
  }

  #failed(reason: string): void {
    this.#failures++;
    if (this.#member === null) {
      if (this.#said.isNew(reason)) this.#notYet(reason);
      return;
    }
    if (this.#failures < FAILURES_MAX) return;
    if (this.#said.isNew(reason)) {
      this.#events.warn(
        `Cannot reach worker ${this.#target.url}: it must answer, current state is ${reason}; ` +
          "it gets no requests; trying again",
      );
    }
    const state: WorkerState = "unreachable";
    if (this.#member.state !== state) this.#tell({ info: this.#member.info, state });
  }

  /** Of a worker that has not answered yet. */
  #notYet(reason: string): void {
    const { url } = this.#target;
    if (reason === LOADING) {
      this.#events.say(`worker ${url} loads its model; trying again`);
    } else if (isUnanswered(reason)) {
      this.#events.warn(
        `Worker ${url} is not up yet: ${reason}; trying again, check --worker if it should be`,
      );
    } else {
      this.#events.warn(
        `Cannot use worker ${url}: it must be a server, current state is ${reason}; ` +
          `check ${flagFor(reason)}; trying again`,
      );
    }
  }

  #well(): void {
    const troubles = this.#said.end().filter((reason) => reason !== LOADING);
    if (troubles.length > 0) this.#events.warn(`Worker ${this.#target.url} answers`);
  }

  #nextMs(): number {
    if (this.#failures === 0) return this.#checkMs;
    const retryMs = Math.min(RETRY_MS_MAX, RETRY_MS_MIN * 2 ** Math.min(10, this.#failures - 1));
    return this.#member === null ? retryMs : Math.min(this.#checkMs, retryMs);
  }

  #sleep(ms: number): Promise<void> {
    const { signal } = this.#stop;
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(done, ms);
      signal.addEventListener("abort", done, { once: true });
      function done() {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        resolve();
      }
    });
  }
}

/** What an operator can change where a worker cannot be used. */
function flagFor(reason: string): string {
  if (reason.startsWith("a refused secret")) return "--cluster-secret-file";
  return reason.startsWith("a refused API key") ? "--worker-api-key-file" : "--worker";
}
