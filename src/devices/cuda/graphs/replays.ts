import { messageOf } from "#base";
import type { CudaGraph, CudaStream, RunnableGraph } from "#devices/cuda/driver";

/**
 * Graphs that are kept: each takes memory of the driver's. As many as there are sizes of steps for
 * up to 4096 sequences of up to 131072 tokens: see the end of this file.
 */
export const GRAPHS_MAX = 256;

/**
 * A graph makes room for another one when it was not launched in so many runs. Where more sizes are
 * in use than are kept, the others run op by op, which costs less than to capture them in turn.
 */
const idleRunsDefault = 4096;

/** Keys that are known beside the graphs, by graph that may be kept. */
const keysPerGraph = 4;

/** What is known of a key: it ran once, cannot be captured, or was. */
type Step = "ran" | "plain" | RunnableGraph;

interface Known {
  readonly step: Step;
  /** Which run was its last. */
  readonly run: number;
}

/** How steps are captured. */
export interface ReplayOptions {
  readonly stream: CudaStream;
  /** Told once, in one line, that steps cannot be captured. */
  readonly warn?: ((message: string) => void) | undefined;
  readonly graphsMax?: number;
  /** Runs without a graph's key after which the graph makes room for another one. */
  readonly idleRuns?: number;
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
  readonly #idleRuns: number;
  /** Least recently used first. */
  readonly #known = new Map<string, Known>();
  #graphs = 0;
  #runs = 0;
  #warned = false;

  constructor(options: ReplayOptions) {
    this.#stream = options.stream;
    this.#warn = options.warn;
    this.#graphsMax = options.graphsMax ?? GRAPHS_MAX;
    this.#idleRuns = options.idleRuns ?? idleRunsDefault;
  }

  /** Graphs that are kept now. */
  get graphs(): number {
    return this.#graphs;
  }

  /** Enqueues what `enqueue` does, or what it did. */
  run(key: string, enqueue: () => void): void {
    const known = this.#known.get(key);
    this.#runs++;
    // An error leaves nothing behind that would be launched.
    if (known !== undefined) this.#known.delete(key);
    this.#known.set(key, { step: this.#enqueue(known?.step, enqueue), run: this.#runs });
    this.#forgetOldest();
  }

  /** Lets go of all graphs. */
  dispose(): void {
    for (const key of [...this.#known.keys()]) this.#forget(key);
  }

  #enqueue(step: Step | undefined, enqueue: () => void): Step {
    if (step === undefined || step === "plain" || (step === "ran" && !this.#hasRoom())) {
      enqueue();
      return step ?? "ran";
    }
    const graph = step === "ran" ? this.#capture(enqueue) : step;
    if (graph === null) enqueue();
    else this.#launch(graph);
    return graph ?? "plain";
  }

  /** A graph that cannot be launched goes: nobody knows it any more. */
  #launch(graph: RunnableGraph): void {
    try {
      graph.launch(this.#stream);
    } catch (error) {
      this.#graphs--;
      letGo(graph);
      throw error;
    }
  }

  /** Null where it cannot be captured: then it runs op by op for good. */
  #capture(enqueue: () => void): RunnableGraph | null {
    try {
      const graph = this.#runnable(this.#stream.capture(enqueue));
      this.#graphs++;
      return graph;
    } catch (error) {
      // Whatever is really broken breaks the plain run, too.
      if (!this.#warned) this.#warn?.(`${messageOf(error)}. Steps are launched op by op`);
      this.#warned = true;
      return null;
    }
  }

  /** A graph that is on the device. Its template goes, and after an error the graph, too. */
  #runnable(template: CudaGraph): RunnableGraph {
    try {
      const graph = template.instantiate();
      try {
        graph.upload(this.#stream);
        return graph;
      } catch (error) {
        letGo(graph);
        throw error;
      }
    } finally {
      letGo(template);
    }
  }

  /** Whether one more graph may be kept; one that is idle goes. */
  #hasRoom(): boolean {
    if (this.#graphs < this.#graphsMax) return true;
    for (const [key, { step, run }] of this.#known) {
      if (typeof step === "string") continue;
      if (this.#runs - run <= this.#idleRuns) return false;
      this.#forget(key);
      return true;
    }
    return false;
  }

  /** Keys without a graph, too, are only so many. */
  #forgetOldest(): void {
    if (this.#known.size - this.#graphs <= keysPerGraph * this.#graphsMax) return;
    for (const [key, { step }] of this.#known) {
      if (typeof step !== "string") continue;
      this.#known.delete(key);
      return;
    }
  }

  #forget(key: string): void {
    const step = this.#known.get(key)?.step;
    this.#known.delete(key);
    if (step === undefined || typeof step === "string") return;
    this.#graphs--;
    // A graph that still runs goes when it is done.
    step.destroy();
  }
}

/** A device that failed destroys nothing either: whatever else is called on it says why. */
function letGo(graph: CudaGraph | RunnableGraph): void {
  try {
    graph.destroy();
  } catch {
    // Nothing can be done about it here.
  }
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

/** Up to so many sequences a step whose context is taken for too long would show. */
const fewSequences = 8;

/**
 * Lengths that contexts are taken for where launches depend on them: 512 times powers of two, or of
 * four where sequences alone make blocks enough.
 */
export function paddedContext(contextTokens: number, sequences: number): number {
  const doublings = Math.max(0, Math.ceil(Math.log2(contextTokens / contextMin)));
  const step = sequences <= fewSequences ? 1 : 2;
  return contextMin * 2 ** (Math.ceil(doublings / step) * step);
}

/** 1, 2, 4, 8, 12, 16, 24, .. 64, 80, .. 256, 288, .. 512, 576, .. 1024, then four per doubling. */
function stepAbove(count: number): number {
  if (count <= 2) return 1;
  if (count <= 16) return 4;
  if (count <= 64) return 8;
  if (count <= 256) return 16;
  const doubling = 2 ** Math.ceil(Math.log2(count));
  return count <= 1024 ? doubling / 16 : doubling / 8;
}
