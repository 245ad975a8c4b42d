import { EngineError } from "#base";
import type { GroupBlocks, PrefixMatch, PromptBlocks, WorkerNumber } from "#cluster/protocol";
import { BlockNodes } from "./block-nodes.ts";
import { ByteBudget } from "./byte-budget.ts";
import { GroupWalk } from "./group-walk.ts";
import { PrefixWalk } from "./prefix-walk.ts";

const BYTES_MIN = 2 ** 20;

/** Nodes with the sets of their workers, and how prompts are followed through them. */
export class IndexTables {
  readonly budget: ByteBudget;
  readonly nodes: BlockNodes;
  readonly #walk: PrefixWalk;
  readonly #groups: GroupWalk;
  /** Beyond the highest number of a worker. */
  #workersEnd = 0;
  /** Counts looks and changes. */
  now = 0;

  constructor(bytesMax: number) {
    if (!(bytesMax >= BYTES_MIN)) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot make an index: it needs at least ${BYTES_MIN} bytes, current value is ${bytesMax}`,
      );
    }
    this.budget = new ByteBudget(bytesMax);
    this.nodes = new BlockNodes(this.budget);
    this.#walk = new PrefixWalk(this.nodes);
    this.#groups = new GroupWalk(this.nodes, this.#walk);
  }

  /** Blocks of this worker are looked for from now on. */
  admit(worker: WorkerNumber): void {
    this.#workersEnd = Math.max(this.#workersEnd, worker + 1);
  }

  find({ keys }: PromptBlocks): PrefixMatch[] {
    return this.#walk.find(keys, this.#workersEnd, ++this.now);
  }

  findGroups(groups: readonly GroupBlocks[]): PrefixMatch[] {
    return this.#groups.find(groups, this.#workersEnd, ++this.now);
  }
}
