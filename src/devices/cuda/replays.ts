import { messageOf } from "#base";
import type { RunnableGraph } from "./graph.ts";
import type { CudaStream } from "./stream.ts";

/** Graphs that are kept: each takes memory of the driver's. */
const graphsDefault = 256;

/** What is known of a key: it ran once, cannot be captured, or was. */
type Known = "ran" | "plain" | RunnableGraph;

/** How steps are captured. */
export interface ReplayOptions {
  readonly stream: CudaStream;
  /** Told once, in one line, that steps cannot be captured. */
  readonly warn?: ((message: string) => void) | undefined;
  readonly graphsMax?: number;
}

/**
 * Steps by key, so that all launches of one become a single call. What is enqueued under a key runs
 * as it is at first, which lets ops size their scratch memory and choose their ways, is captured in
 * a graph the second time, and launched as that graph from then on.
 */
export class Replays {
  readonly #stream: CudaStream;
  readonly #warn: ((message: string) => void) | undefined;
  readonly #graphsMax: number;
  /** Least recently used first. */
  readonly #known = new Map<string, Known>();
  #warned = false;

  constructor({ stream, warn, graphsMax = graphsDefault }: ReplayOptions) {
    this.#stream = stream;
    this.#warn = warn;
    this.#graphsMax = graphsMax;
  }

  /** Graphs that are kept now. */
  get graphs(): number {
    return [...this.#known.values()].filter(isGraph).length;
  }

  /** Enqueues what `enqueue` does, or what it did. */
  run(key: string, enqueue: () => void): void {
    const known = this.#known.get(key);
    // An error leaves nothing behind that would be launched.
    if (known !== undefined) this.#known.delete(key);
    this.#known.set(key, this.#enqueue(known, enqueue));
    this.#forgetOldest();
  }

  /** Lets go of all graphs. */
  dispose(): void {
    for (const known of this.#known.values()) if (isGraph(known)) known.destroy();
    this.#known.clear();
  }

  #enqueue(known: Known | undefined, enqueue: () => void): Known {
    if (known === undefined || known === "plain") {
      enqueue();
      return known ?? "ran";
    }
    const graph = known === "ran" ? this.#capture(enqueue) : known;
    if (graph === null) enqueue();
    else graph.launch(this.#stream);
    return graph ?? "plain";
  }

  /** Null where it cannot be captured: then it runs op by op for good. */
  #capture(enqueue: () => void): RunnableGraph | null {
    try {
      const template = this.#stream.capture(enqueue);
      try {
        const graph = template.instantiate();
        graph.upload(this.#stream);
        return graph;
      } finally {
        template.destroy();
      }
    } catch (error) {
      // Whatever is really broken breaks the plain run, too.
      if (!this.#warned) this.#warn?.(`${messageOf(error)}. Steps are launched op by op`);
      this.#warned = true;
      return null;
    }
  }

  #forgetOldest(): void {
    if (this.#known.size <= this.#graphsMax) return;
    const [oldest] = this.#known;
    if (oldest === undefined) return;
    const [key, known] = oldest;
    // A graph that still runs goes when it is done.
    if (isGraph(known)) known.destroy();
    this.#known.delete(key);
  }
}

function isGraph(known: Known): known is RunnableGraph {
  return typeof known !== "string";
}

/**
 * Sizes that batches are filled up to: all small ones that tensor cores tell apart, then in steps
 * that waste little.
 */
export function paddedBatch(count: number, countMax: number): number {
  const step = stepAbove(count);
  return Math.min(Math.ceil(count / step) * step, countMax);
}

/** Contexts are taken for at least as long: shorter ones launch hardly less. */
const contextMin = 512;

/** Lengths that contexts are taken for where launches depend on them: powers of two. */
export function paddedContext(contextTokens: number): number {
  return Math.max(contextMin, 2 ** Math.ceil(Math.log2(contextTokens)));
}

/** 1, 2, 4, 8, 12, 16, 24, 32, 40, .. 64, 80, .. 256, 288, .. */
function stepAbove(count: number): number {
  if (count <= 2) return 1;
  if (count <= 16) return 4;
  if (count <= 64) return 8;
  return count <= 256 ? 16 : 32;
}
