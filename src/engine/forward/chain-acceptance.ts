import { assert } from "#base";
import type { Device, DeviceTensor } from "#devices";
import { type Decoder, type DeviceRoots, levelStride } from "#models";
import type { Sampler } from "#sampling";
import type { AheadSeed } from "#speculative";

export interface ChainAcceptanceParts {
  readonly device: Device;
  readonly decoder: Pick<Decoder, "keptRow" | "tokenIds">;
  readonly sampler: Pick<Sampler, "tokens">;
  /** Most chains at a time. */
  readonly chainsMax: number;
}

/** What the device accepted. */
export interface AcceptedRoots extends DeviceRoots {
  /** [C and more] i32: rows of the last accepted tokens, for `Decoder.hiddenAt`. */
  readonly rows: DeviceTensor;
}

/** Numbers of a chain that go to the device: three of `AcceptChainsInput`, rows, positions. */
const FIELDS = 5;

/** Accepts drafted chains on the device, so that it drafts behind them without the host (SP30). */
export class ChainAcceptance {
  readonly #parts: ChainAcceptanceParts;
  /** [fields, C]: what is accepted raises the last two. */
  readonly #fields: DeviceTensor;
  readonly #roots: DeviceTensor;

  /** Throws OUT_OF_MEMORY. */
  constructor(parts: ChainAcceptanceParts) {
    const { device, chainsMax } = parts;
    this.#parts = parts;
    this.#fields = device.allocate("i32", [FIELDS * levelStride(chainsMax)]);
    this.#roots = device.allocate("i32", [levelStride(chainsMax)]);
  }

  /** Enqueues the acceptance of the staged step's chains, behind its sampling. */
  accept(seeds: readonly AheadSeed[]): AcceptedRoots {
    const { device, decoder, sampler, chainsMax } = this.#parts;
    assert(seeds.length <= chainsMax, `Cannot accept ${seeds.length} chains: room for fewer`);
    // Chains that are padding have no tokens.
    const count = levelStride(seeds.length);
    const values = new Int32Array(FIELDS * count);
    seeds.forEach(({ row, sampled, drafted, position }, chain) => {
      values[chain] = row + 1;
      values[count + chain] = sampled;
      values[2 * count + chain] = drafted;
      values[3 * count + chain] = decoder.keptRow(row);
      // The root is behind the token that the step sampled from, the first drafted one behind it.
      values[4 * count + chain] = position + 2;
    });
    device.write(this.#fields, values);
    const field = (place: number, end = place + 1): DeviceTensor =>
      device.rows(this.#fields, place * count, end * count);
    const [firstIds, firstSampled, drafted] = [field(0), field(1), field(2)];
    device.acceptChains({
      ...{ count, ids: decoder.tokenIds, sampled: sampler.tokens, firstIds, firstSampled, drafted },
      ...{ roots: this.#roots, placeRows: 2, places: field(3, 5) },
    });
    return { tokens: this.#roots, rows: field(3), positions: field(4) };
  }
}
