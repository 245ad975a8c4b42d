import { assert, TREE_NODES_MAX } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { type Decoder, type DeviceRoots, levelStride } from "#models";
import type { Sampler } from "#sampling";
import type { AheadSeed } from "#speculative";

export interface TreeAcceptanceParts {
  readonly device: Device;
  readonly decoder: Pick<Decoder, "keptRow" | "tokenIds">;
  readonly sampler: Pick<Sampler, "tokens">;
  /** Most trees at a time. */
  readonly treesMax: number;
}

/** What the device accepted. */
export interface AcceptedRoots extends DeviceRoots {
  /** [C and more] i32: rows of the last accepted tokens, for `Decoder.hiddenAt`. */
  readonly rows: DeviceTensor;
}

/** Numbers of a tree that go to the device beside parents: three of `AcceptTreesInput`, two out. */
const FIELDS = 5;

/** Accepts drafted trees on the device, so that it drafts behind them without the host (SP30). */
export class TreeAcceptance {
  readonly #parts: TreeAcceptanceParts;
  /** [fields, C], then parents [C, P]: what is accepted raises the last two fields. */
  readonly #fields: DeviceTensor;
  readonly #roots: DeviceTensor;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: TreeAcceptanceParts) {
    const { device, treesMax } = parts;
    this.#parts = parts;
    const rows = FIELDS + TREE_NODES_MAX;
    this.#fields = device.allocate("i32", [rows * levelStride(treesMax)]);
    this.#roots = device.allocate("i32", [levelStride(treesMax)]);
  }

  /** Enqueues the acceptance of the staged step's trees, behind its sampling. */
  accept(seeds: readonly AheadSeed[]): AcceptedRoots {
    const { device, decoder, sampler, treesMax } = this.#parts;
    assert(seeds.length <= treesMax, `Cannot accept ${seeds.length} trees: room for fewer`);
    // Trees that are padding have no drafted nodes.
    const count = levelStride(seeds.length);
    const columns = Math.max(1, ...seeds.map(({ drafted }) => drafted));
    const start = FIELDS * count;
    const values = new Int32Array(start + count * columns);
    seeds.forEach(({ row, sampled, drafted, parents, position }, tree) => {
      values[tree] = row + 1;
      values[count + tree] = sampled;
      values[2 * count + tree] = drafted;
      values[3 * count + tree] = decoder.keptRow(row);
      // The root is behind the token that the step sampled from, the first drafted one behind it.
      values[4 * count + tree] = position + 2;
      values.set(parents.subarray(1, 1 + drafted), start + tree * columns);
    });
    device.write(this.#fields, values);
    const field = (place: number): DeviceTensor =>
      device.rows(this.#fields, place * count, (place + 1) * count);
    const [firstIds, firstSampled, drafted] = [field(0), field(1), field(2)];
    const [nodes, depths] = [field(3), field(4)];
    const parents = device.rows(this.#fields, start, start + count * columns);
    device.acceptTrees({
      ...{ count, ids: decoder.tokenIds, sampled: sampler.tokens, firstIds, firstSampled, drafted },
      ...{ columns, parents, roots: this.#roots, nodes, depths },
    });
    return { tokens: this.#roots, rows: nodes, positions: depths };
  }
}
