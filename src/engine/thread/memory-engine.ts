import { type Clock, EngineError } from "#base";
import type { StepEngine } from "#engine/loop";
import type { EngineRequest, LoopStats, StepOutput } from "#engine/protocol";
import type { CacheMemory } from "#engine/tiers";

/** Takes no requests: it carries out what the books of blocks for other engines decide. */
export class MemoryEngine implements StepEngine {
  readonly keys = [];
  readonly #memory: CacheMemory;
  readonly #clock: Clock;
  /** Told of loads from disk that have ended. */
  onLoaded: (keys: readonly number[]) => void = () => {};

  constructor(memory: CacheMemory, clock: Clock) {
    this.#memory = memory;
    this.#clock = clock;
  }

  /** Always throws INVALID_ARGUMENT. */
  add(_request: EngineRequest): never {
    throw computesNothing("generate");
  }

  /** Always throws INVALID_ARGUMENT. */
  addEmbedding(): never {
    throw computesNothing("embed");
  }

  abort(): void {}

  /** Never has results. Rejects where memory could not be moved: no step may follow. */
  async step(): Promise<StepOutput | null> {
    this.#memory.cache.advance(this.#clock.nowMs());
    this.onLoaded(this.#memory.takeFinishedLoads());
    this.#memory.carryOut();
    return null;
  }

  stats(): LoopStats {
    const { free, held, cached, total } = this.#memory.cache.poolStats(0);
    return {
      ...{ running: 0, waiting: 0, paused: 0, uncomputedTokens: 0 },
      ...{ freeBlocks: free, heldBlocks: held, cachedBlocks: cached, totalBlocks: total },
      ...{ steps: 0, preemptions: 0, swapPreemptions: 0, forks: 0, loads: 0 },
      ...{ promptTokens: 0, cachedPromptTokens: 0, computedPromptTokens: 0, generatedTokens: 0 },
      ...{ drafts: 0, draftedTokens: 0, acceptedTokens: 0, acceptedPerPosition: [] },
      ...{ prefixQueriedTokens: 0, prefixHitTokens: 0 },
    };
  }

  async dispose(): Promise<void> {}
}

/** What a client is told who asks it all the same. */
export function computesNothing(what: string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot ${what}: this worker gives memory alone (role kv) and has no weights; send the ` +
      "request to the router, or to a worker of another role",
    { param: "model" },
  );
}
