import { describe, expect, test } from "vitest";
import type { Device, HostBlocks, KvFormat, KvPool, MovesMark } from "#devices";
import { RandomNumbers } from "./random.ts";

const heads = { heads: 2, kvHeads: 2, headDim: 20 };
const layers = 3;
const blocks = 5;

/** Formats, and block sizes below and above a group of positions. */
const cases = (["f32", "f16", "bf16", "i8", "fp8"] satisfies KvFormat[]).flatMap((format) =>
  [1, 16, 64].map((blockTokens) => ({ format, blockTokens })),
);

/** A cache whose every slot holds random keys and values, and room for it in host memory. */
class FilledCache {
  readonly device: Device;
  readonly cache: KvPool;
  readonly host: HostBlocks;

  constructor(device: Device, format: KvFormat, blockTokens: number) {
    this.device = device;
    const { kvHeads, headDim } = heads;
    const options = { format, layers, blocks, blockTokens, kvHeads, headDim };
    this.cache = device.allocateKvPool(options);
    expect(this.cache.bytesPerBlock).toBe(device.kvBytesPerBlock(options));
    this.host = device.allocateHostBlocks(this.cache, blocks);
    this.write((row) => row);
  }

  /** Writes row `row` of the random keys and values to slot `slotOf(row)`; -1: nowhere. */
  write(slotOf: (row: number) => number): void {
    const { device, cache } = this;
    const count = blocks * cache.blockTokens;
    const random = new RandomNumbers(count);
    const columns = 3 * heads.heads * heads.headDim;
    const qkv = device.allocate("f32", [count, columns]);
    const query = device.allocate("f32", [count, heads.heads * heads.headDim]);
    const slots = device.allocate("i32", [count]);
    device.write(
      slots,
      Int32Array.from({ length: count }, (_, row) => slotOf(row)),
    );
    for (let layer = 0; layer < layers; layer++) {
      device.write(qkv, random.floats(count * columns));
      const step = { count, qkv, query, heads: heads.heads, cache, positions: slots, slots };
      device.ropeKvWrite({ ...step, layer });
    }
  }

  /** The bytes of all blocks, by way of a second host region: as text, which is compared at once. */
  async image(): Promise<string[]> {
    const aside = this.device.allocateHostBlocks(this.cache, blocks);
    this.device.offloadBlocks(this.cache, aside, pairsOf(eachTo((block) => block)));
    await this.device.synchronize();
    const bytes = eachTo((block) => this.device.hostBlock(aside, block).slice());
    this.device.release(aside);
    return bytes.map(([, image]) => textOf(image));
  }

  /** What a query sees that looks at the first token of `block` in each layer. */
  async seenIn(block: number): Promise<string[]> {
    const { device, cache } = this;
    const columns = heads.heads * heads.headDim;
    const i32 = (...values: number[]) => {
      const tensor = device.allocate("i32", [values.length]);
      device.write(tensor, Int32Array.from(values));
      return tensor;
    };
    const table = device.allocate("i32", [1, 1]);
    device.write(table, Int32Array.of(block));
    const out = device.allocateActivation("f32", 1, columns);
    const query = device.allocate("f32", [1, columns]);
    const batch = {
      ...{ sequences: 1, queryStarts: i32(0, 1), contextLengths: i32(1), blockTables: table },
      ...{ queryLengthMax: 1, contextLengthMax: 1 },
    };
    const seen: string[] = [];
    for (let layer = 0; layer < layers; layer++) {
      const step = { count: 1, out, query, heads: heads.heads, cache, layer, batch, scale: 1 };
      device.pagedAttention(step);
      seen.push(textOf(await device.readF32(out)));
    }
    return seen;
  }

  release(): void {
    this.device.release(this.cache);
    this.device.release(this.host);
  }
}

/** Waits for a mark. */
async function done(mark: MovesMark): Promise<void> {
  while (!mark.isDone()) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** Bytes as a string of two digits each. */
function textOf({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  return Buffer.from(buffer, byteOffset, byteLength).toString("hex");
}

/** [block, value(block)] for each block. */
function eachTo<T>(value: (block: number) => T): [number, T][] {
  return Array.from({ length: blocks }, (_, block) => [block, value(block)]);
}

function pairsOf(pairs: readonly (readonly [number, number])[]): Int32Array {
  return Int32Array.from(pairs.flat());
}

/** moveTokens: bytes are those of a cache into which the tokens were written at once. */
export function tokenMoves(device: () => Device): void {
  test.for(cases)(
    "moveTokens in $format, blocks of $blockTokens",
    async ({ format, blockTokens }) => {
      const filled = new FilledCache(device(), format, blockTokens);
      const slots = blocks * blockTokens;
      // Inside of a block and between blocks; a move writes where the one before it read.
      const groups = [
        [
          [1, 0],
          [slots - 1, 1],
        ],
        [],
        [[3, 2]],
      ] as const;
      const moves = groups.flat();
      const starts = [0, 2, 2, 3];
      const input = {
        starts: device().allocate("i32", [starts.length]),
        moves: device().allocate("i32", [moves.length, 2]),
      };
      device().write(input.starts, Int32Array.from(starts));
      device().write(input.moves, Int32Array.from(moves.flat()));
      const { cache } = filled;
      device().moveTokens({ count: moves.length, groups: groups.length, cache, ...input });

      const expected = new FilledCache(device(), format, blockTokens);
      const rows = Array.from({ length: slots }, (_, slot) => slot);
      for (const [from, to] of moves) rows[to] = rows[from] ?? 0;
      for (const [, to] of moves) expected.write((row) => (row === rows[to] ? to : -1));
      expect(await filled.image()).toEqual(await expected.image());
      filled.release();
      expected.release();
    },
  );
}

/** copyBlocks, offloadBlocks, onboardBlocks, hostBlock: bytes arrive as they left. */
export function blockMoves(device: () => Device): void {
  describe.for(cases)("blocks of $blockTokens tokens in $format", ({ format, blockTokens }) => {
    test("a copied block has the bytes of its source, and shows queries the same", async () => {
      const filled = new FilledCache(device(), format, blockTokens);
      const before = await filled.image();
      device().copyBlocks(filled.cache, pairsOf([[1, 3]]));
      const after = await filled.image();
      expect(after).toEqual([before[0], before[1], before[2], before[1], before[4]]);
      expect(before[1]).not.toEqual(before[3]);
      expect(await filled.seenIn(3)).toEqual(await filled.seenIn(1));
      expect(await filled.seenIn(3)).not.toEqual(await filled.seenIn(2));
      filled.release();
    });

    test("the pairs of one call are done in their order", async () => {
      const filled = new FilledCache(device(), format, blockTokens);
      const [a, b, , d, e] = await filled.image();
      const chain = [
        [0, 1],
        [1, 2],
        [3, 0],
        [4, 4],
      ] as const;
      device().copyBlocks(filled.cache, pairsOf(chain));
      expect(await filled.image()).toEqual([d, a, a, d, e]);
      expect(a).not.toEqual(b);
      filled.release();
    });

    test("what is offloaded and onboarded elsewhere is the same block", async () => {
      const filled = new FilledCache(device(), format, blockTokens);
      const { cache, host } = filled;
      const before = await filled.image();
      const seen = await filled.seenIn(2);
      device().offloadBlocks(cache, host, pairsOf([[2, 4]]));
      // The block's place is used for something else meanwhile.
      device().copyBlocks(cache, pairsOf([[0, 2]]));
      device().onboardBlocks(cache, host, pairsOf([[4, 3]]));
      const [a, b, , , e] = before;
      expect(await filled.image()).toEqual([a, b, a, before[2], e]);
      expect(await filled.seenIn(3)).toEqual(seen);
      filled.release();
    });

    test("what leaves beside ops is there when its mark is done, and for moves at once", async () => {
      const filled = new FilledCache(device(), format, blockTokens);
      const { cache, host } = filled;
      const before = await filled.image();
      await done(device().markOps());
      const leaves = [
        [1, 0],
        [2, 1],
        [4, 3],
      ] as const;
      const mark = device().offloadBeside(cache, host, pairsOf(leaves));
      // An op beside it, and a move behind it.
      device().copyBlocks(cache, pairsOf([[0, 3]]));
      device().onboardBlocks(cache, host, pairsOf([[3, 0]]));
      await done(mark);
      const left = leaves.map(([, to]) => textOf(device().hostBlock(host, to)));
      expect(left).toEqual([before[1], before[2], before[4]]);
      expect(await filled.image()).toEqual([before[4], before[1], before[2], before[0], before[4]]);
      filled.release();
    });

    test("the bytes of a host block can be read, kept and written back", async () => {
      const filled = new FilledCache(device(), format, blockTokens);
      const { cache, host } = filled;
      const before = await filled.image();
      device().offloadBlocks(cache, host, pairsOf([[1, 0]]));
      await device().synchronize();
      const kept = device().hostBlock(host, 0).slice();
      expect(kept.length).toBe(cache.bytesPerBlock);
      device().hostBlock(host, 3).set(kept);
      device().onboardBlocks(cache, host, pairsOf([[3, 4]]));
      expect((await filled.image())[4]).toEqual(before[1]);
      filled.release();
    });
  });

  test("a block that is not there, or half a pair, is a bug: nothing moves", async () => {
    const filled = new FilledCache(device(), "f32", 2);
    const { cache, host } = filled;
    const before = await filled.image();
    const beyond = pairsOf([
      [0, 1],
      [0, blocks],
    ]);
    expect(() => device().copyBlocks(cache, beyond)).toThrow(`Cannot move block 0 to ${blocks}`);
    expect(() => device().offloadBlocks(cache, host, Int32Array.of(-1, 0))).toThrow(
      "Cannot move block -1 to 0",
    );
    expect(() => device().onboardBlocks(cache, host, Int32Array.of(0, 1, 2))).toThrow(
      "3 numbers are no list of pairs",
    );
    expect(() => device().hostBlock(host, blocks)).toThrow(`Cannot view block ${blocks}`);
    expect(await filled.image()).toEqual(before);
    device().copyBlocks(cache, new Int32Array(0));
    filled.release();
  });

  test("caches of one shape have one layout, those of another shape another", () => {
    const options = { layers, blocks, blockTokens: 16, kvHeads: 2, headDim: 20 };
    const caches = [
      device().allocateKvPool({ ...options, format: "f32" }),
      device().allocateKvPool({ ...options, format: "f32", blocks: 1 }),
      device().allocateKvPool({ ...options, format: "bf16" }),
      device().allocateKvPool({ ...options, format: "f32", layers: 2 }),
    ];
    const [first, same, ...others] = caches.map(({ layout }) => layout);
    expect(same).toBe(first);
    expect(new Set([first, ...others]).size).toBe(3);
    for (const cache of caches) device().release(cache);
  });

  test("host memory that cannot be had is OUT_OF_MEMORY", () => {
    const filled = new FilledCache(device(), "f32", 1);
    expect(() => device().allocateHostBlocks(filled.cache, 2 ** 40)).toThrow(
      expect.objectContaining({ code: "OUT_OF_MEMORY" }),
    );
    filled.release();
  });
}

/**
 * describePool, openPeerPool, pullBlocks. `elsewhere` makes a description of this process that of
 * another one, for devices whose memory no other engine of one process reaches.
 */
export function peerPools(device: () => Device, elsewhere = (text: string) => text): void {
  const described = (cache: KvPool) => elsewhere(device().describePool(cache));

  describe.for(cases)(
    "pools of blocks of $blockTokens tokens in $format",
    ({ format, blockTokens }) => {
      test("blocks of another engine's pool are the same blocks here", async () => {
        const filled = new FilledCache(device(), format, blockTokens);
        const before = await filled.image();
        const seen = await filled.seenIn(4);
        const { cache: own } = filled;
        const other = device().allocateKvPool({ ...own });
        // New memory is filled with zeros by work that pulls are not ordered against.
        await device().synchronize();
        const peer = device().openPeerPool(described(own), other);
        expect(peer).toMatchObject({ blocks, bytesPerBlock: own.bytesPerBlock });
        const pulled = [
          [0, 2],
          [1, 3],
          [4, 0],
        ] as const;
        await done(device().pullBlocks(other, peer, pairsOf(pulled)));
        device().release(peer);
        // Its own blocks, by the same ids, are what was pulled.
        device().offloadBlocks(other, filled.host, pairsOf(eachTo((block) => block)));
        await device().synchronize();
        const image = (block: number) => textOf(device().hostBlock(filled.host, block));
        for (const [from, to] of pulled) expect(image(to)).toEqual(before[from]);
        device().copyBlocks(own, pairsOf([[0, 4]]));
        device().onboardBlocks(own, filled.host, pairsOf([[0, 4]]));
        expect(await filled.seenIn(4)).toEqual(seen);
        filled.release();
        device().release(other);
      });
    },
  );

  test("a pool of another shape, or one that is not there, is not opened", async () => {
    const filled = new FilledCache(device(), "f32", 2);
    const other = new FilledCache(device(), "f32", 4);
    const description = described(filled.cache);
    expect(() => device().openPeerPool(description, other.cache)).toThrow("its layout must be");
    expect(() => device().openPeerPool("{}", filled.cache)).toThrow(
      "Cannot reach another engine's pool",
    );
    const peer = device().openPeerPool(description, filled.cache);
    const beyond = Int32Array.of(0, blocks);
    expect(() => device().pullBlocks(filled.cache, peer, beyond)).toThrow("Cannot move block 0");
    device().release(peer);
    filled.release();
    other.release();
  });
}
