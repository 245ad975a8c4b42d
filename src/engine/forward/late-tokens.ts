import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import type { StartedTrees } from "#models";
import type { Sampler } from "#sampling";
import type { LateTrees } from "#speculative";

/** Where drafted tokens are put, for the next step to read. */
export interface LateTokensParts {
  readonly device: Device;
  /** Its tokens have room for D elements of drafts. */
  readonly sampler: Pick<Sampler, "tokens" | "draftsFrom">;
  /** D: most elements that are put there (`StartedTrees.count`). */
  readonly elementsMax: number;
}

/**
 * Puts drafted tokens behind the sampled ones of the device, where the next step reads both
 * (`StepInput.tokenSources`): it can begin before the host knows them. Those of one step at a time.
 */
export class LateTokens {
  readonly #parts: LateTokensParts;
  /** [D] i32: 0, 1, 2 and so on. */
  readonly #all: DeviceTensor;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: LateTokensParts) {
    const { device, elementsMax: length } = parts;
    this.#parts = parts;
    this.#all = device.allocate("i32", [length]);
    device.write(
      this.#all,
      Int32Array.from({ length }, (_, place) => place),
    );
  }

  /** Enqueues the copy of the tokens of trees, one for each seed. */
  put(trees: StartedTrees): LateTrees {
    const { device, sampler, elementsMax } = this.#parts;
    const { tokens, draftsFrom: first } = sampler;
    const { count, nodes } = trees;
    assert(count <= elementsMax, `Cannot put ${count} drafted tokens: room for ${elementsMax}`);
    const ids = device.rows(tokens, first, first + count);
    device.takeTokens({ count, ids, sampled: trees.tokens, sources: this.#all });
    return {
      nodesOf: (tree) => {
        const own = nodes[tree];
        assert(own !== undefined, "Cannot read the nodes of no tree");
        return own;
      },
      sourceOf: (tree, node) => first + trees.placeOf(tree, node),
      take: () => trees.take(),
    };
  }
}
