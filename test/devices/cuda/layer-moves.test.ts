/**
 * Moves between device and host beside ops, on the emulated GPU: it runs each of its streams as far
 * ahead of the others as events allow, so that a wait which is missing shows.
 */
import { expect, test } from "vitest";
import type { Device, DeviceTensor, HostBlocks, KvPool, MovesMark } from "#devices";
import { RandomNumbers } from "../../contracts/device-ops/random.ts";
import { describeEmulated } from "./describe-emulated.ts";
import { openEmulated } from "./emulated-device.ts";

const layers = 3;
const blocks = 5;
const blockTokens = 32;
/** A layer of a block is half a MiB, so that several blocks are moved layer by layer. */
const heads = { kvHeads: 16, headDim: 128 };
const columns = heads.kvHeads * heads.headDim;
const options = { format: "f32", layers, blocks, blockTokens, ...heads } as const;

/** A cache, its host blocks, and the rows that ops write into it. */
class Scene {
  readonly device: Device;
  readonly cache: KvPool;
  readonly host: HostBlocks;
  readonly #qkv: DeviceTensor;
  readonly #query: DeviceTensor;
  readonly #slots: DeviceTensor;

  constructor(device: Device) {
    this.device = device;
    this.cache = device.allocateKvPool(options);
    this.host = device.allocateHostBlocks(this.cache, blocks);
    this.#qkv = device.allocate("f32", [1, 3 * columns]);
    this.#query = device.allocate("f32", [1, columns]);
    this.#slots = device.allocate("i32", [1]);
    for (let block = 0; block < blocks; block++) device.hostBlock(this.host, block).fill(block + 1);
  }

  /** A token's keys and values, like those of a step, in all layers. */
  writeToken(slot: number, value: number): void {
    const { device, cache } = this;
    device.write(this.#qkv, new Float32Array(3 * columns).fill(value));
    device.write(this.#slots, Int32Array.of(slot));
    const step = { count: 1, qkv: this.#qkv, query: this.#query, heads: heads.kvHeads, cache };
    for (let layer = 0; layer < layers; layer++) {
      device.ropeKvWrite({ ...step, layer, positions: this.#slots, slots: this.#slots });
    }
  }

  /** A number for what each block holds, of the host and then of the cache. */
  async contents(): Promise<number[]> {
    await this.device.synchronize();
    const ofHost = this.#hostContents();
    this.device.offloadBlocks(
      this.cache,
      this.host,
      pairsOf(blocks, (block) => [block, block]),
    );
    await this.device.synchronize();
    return [...ofHost, ...this.#hostContents()];
  }

  release(): void {
    const { device } = this;
    for (const each of [this.#qkv, this.#query, this.#slots, this.host, this.cache]) {
      device.release(each);
    }
  }

  #hostContents(): number[] {
    return Array.from({ length: blocks }, (_, block) => {
      const { buffer, byteOffset, byteLength } = this.device.hostBlock(this.host, block);
      const words = new Uint32Array(buffer, byteOffset, byteLength / 4);
      return words.reduce((hash, word) => (Math.imul(hash, 31) + word) >>> 0, 7);
    });
  }
}

function pairsOf(count: number, pair: (index: number) => readonly [number, number]): Int32Array {
  return Int32Array.from(Array.from({ length: count }, (_, index) => pair(index)).flat());
}

/** One call of a random program. */
async function act(scene: Scene, random: RandomNumbers): Promise<void> {
  const { device, cache, host } = scene;
  const pairs = pairsOf(1 + random.below(4), () => [random.below(blocks), random.below(blocks)]);
  const kind = random.below(6);
  if (kind === 5) {
    await done(device.markOps());
    // Moves before it, in both directions, of the same blocks.
    device.onboardBlocks(cache, host, Int32Array.of(1, 3, 2, 0));
    device.offloadBlocks(cache, host, Int32Array.of(random.below(blocks), 2));
    const mark = device.offloadBeside(cache, host, Int32Array.of(random.below(blocks), 1, 0, 2));
    // And behind it.
    device.offloadBlocks(cache, host, Int32Array.of(random.below(blocks), random.below(blocks)));
    device.onboardBlocks(cache, host, pairs);
    return await done(mark);
  }
  if (kind === 0) device.copyBlocks(cache, pairs);
  else if (kind === 1) device.offloadBlocks(cache, host, pairs);
  else if (kind === 2) device.onboardBlocks(cache, host, pairs);
  else scene.writeToken(random.below(blocks * blockTokens), random.below(100));
}

async function done(mark: MovesMark): Promise<void> {
  while (!mark.isDone()) await new Promise((resolve) => setTimeout(resolve, 1));
}

describeEmulated("moves beside ops, emulated", openEmulated, (device) => {
  test.for([1, 2, 3, 4, 5, 6])("do what they do one after the other (seed %i)", async (seed) => {
    const [freely, waiting] = [new Scene(device), new Scene(device)];
    const [one, other] = [new RandomNumbers(seed), new RandomNumbers(seed)];
    for (let call = 0; call < 12; call++) await act(freely, one);
    const found = await freely.contents();
    for (let call = 0; call < 12; call++) {
      await act(waiting, other);
      await device.synchronize();
    }
    expect(found).toEqual(await waiting.contents());
    freely.release();
    waiting.release();
  });

  test("a replayed step sees what was moved before it", async () => {
    const scene = new Scene(device);
    const { cache, host } = scene;
    for (let round = 0; round < 4; round++) {
      device.onboardBlocks(cache, host, Int32Array.of(round, 0, round, 1, round, 2));
      // The same graph from the third round on.
      device.replay("copy", () => device.copyBlocks(cache, Int32Array.of(2, 4)));
      const image = device.hostBlock(host, round).slice();
      await device.synchronize();
      device.offloadBlocks(cache, host, Int32Array.of(4, 4));
      await device.synchronize();
      expect(device.hostBlock(host, 4).every((byte, i) => byte === image[i])).toBe(true);
    }
    scene.release();
  });
});
