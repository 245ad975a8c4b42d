import { messageOf } from "#base";
import type { CudaGraph, CudaStream, RunnableGraph } from "#devices/cuda/driver";

/**
 * Kept graphs: each takes driver memory. As many as there are sizes of steps for up to 4096
 * sequences of up to 131072 tokens: see the end of this file.
 */
export const GRAPHS_MAX = 256;

/**
 * A graph that was not launched in this many runs may be evicted for another one. Where more sizes
 * are in use than are kept, the others run op by op, which costs less than to capture them in turn.
 */
const idleRunsDefault = 4096;

/** Keys that are remembered beside the graphs, per graph that may be kept. */
const keysPerGraph = 4;

/** State of a key: it ran once, cannot be captured, or is a graph. */
type Step = "ran" | "plain" | RunnableGraph;

interface Known {
  readonly step: Step;
  /** Number of its last run. */
  readonly run: number;
}

/** Options of capturing steps. */
export interface ReplayOptions {
  readonly stream: CudaStream;
  /** Receives one line, once, when steps cannot be captured. */
  readonly warn?: ((message: string) => void) | undefined;
  readonly graphsMax?: number;
  /** Runs without a graph's key after which the graph may be evicted for another one. */
  readonly idleRuns?: number;
}

/**
 * Steps by key, so that all launches of one become a single call. Under a new key the work is
 * enqueued op by op, which lets ops size their scratch memory and choose their algorithms; the
 * second time it is captured in a graph, and from then on launched as that graph.
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

  /** Enqueues the work of `enqueue`, or launches the graph captured under the key. */
  run(key: string, enqueue: () => void): void {
    const known = this.#known.get(key);
    this.#runs++;
    // After an error no graph of this key stays.
    if (known !== undefined) this.#known.delete(key);
    this.#known.set(key, { step: this.#enqueue(known?.step, enqueue), run: this.#runs });
    this.#forgetOldest();
  }

  /** Releases all graphs. */
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

  /** A graph that cannot be launched is destroyed; its key is forgotten. */
  #launch(graph: RunnableGraph): void {
    try {
      graph.launch(this.#stream);
    } catch (error) {
      this.#graphs--;
      letGo(graph);
      throw error;
    }
  }

  /** Null where it cannot be captured: such a step runs op by op from then on. */
  #capture(enqueue: () => void): RunnableGraph | null {
    try {
      const graph = this.#runnable(this.#stream.capture(enqueue));
      this.#graphs++;
      return graph;
    } catch (error) {
      // A broken device breaks the plain run, too.
      if (!this.#warned) this.#warn?.(`${messageOf(error)}. Steps are launched op by op`);
      this.#warned = true;
      return null;
    }
  }

  /**
   * A graph uploaded to the device. Its template is destroyed, and after an error the graph, too.
   */
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

  /** Whether one more graph may be kept; an idle one is evicted. */
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

  /** The number of keys without a graph is limited, too. */
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
    // The driver frees a running graph when it is done.
    step.destroy();
  }
}

/**
 * Destroys a graph. A failed device cannot destroy one either; other calls on it report the
 * failure.
 */
function letGo(graph: CudaGraph | RunnableGraph): void {
  try {
    graph.destroy();
  } catch {
    // The error cannot be handled here.
  }
}

/**
 * Batch sizes after padding: all small ones that differ on tensor cores, then steps with little
 * padding.
 */
export function paddedBatch(count: number, countMax: number): number {
  const step = stepAbove(count);
  return Math.min(Math.ceil(count / step) * step, countMax);
}

/** Shortest padded context: launches for shorter ones are hardly smaller. */
const contextMin = 512;

/** Up to this many sequences, padding a context too far costs measurable time. */
const fewSequences = 8;

/**
 * Padded context lengths where launches depend on them: 512 times powers of two, or of four where
 * sequences alone make enough blocks.
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
