/** Where drafts are computed: in blocks of no sequence. */
import { afterAll, expect, test } from "vitest";
import { type Device, type DeviceTensor, type KvPool, openDevice } from "#devices";
import type { DraftContext, KvDraftNetwork, StartedChains, StepInput } from "#models";
import type { DraftSeed } from "#speculative";
import { KvDrafter, scratchBlocks } from "../../src/engine/forward/kv-drafter.ts";

const blockTokens = 4;
const blocks = 8;
const shape = { format: "f32", layers: 1, blockTokens, kvHeads: 1, headDim: 16 } as const;
const devices: Device[] = [];
for (const kind of ["reference", "cpu"] as const) {
  devices.push(await openDevice({ kind, threads: 1, warn: () => {} }));
}
afterAll(() => {
  for (const device of devices) device.dispose();
});

const limits = {
  ...{ sequencesMax: 3, widthMax: 1, lengthMax: 6, stepTokensMax: 16, stepSequencesMax: 4 },
  ...{ blocksPerSequenceMax: 4, treeTokensMax: 0, blockTokens, contextTokensMax: 32 },
  ...{ servedTokens: 32, streaming: null },
};

/** Records what it is asked for, and drafts the positions. */
class RecordingNetwork implements KvDraftNetwork {
  readonly limits = limits;
  readonly takesFirstSlot: boolean;
  contexts: readonly DraftContext[] = [];

  constructor(takesFirstSlot = false) {
    this.takesFirstSlot = takesFirstSlot;
  }

  fill(): void {}
  runSizes(): void {}
  chains(contexts: readonly DraftContext[]): StartedChains {
    this.contexts = contexts;
    const drafted = contexts.map(({ position, length }) =>
      Int32Array.from({ length }, (_, place) => position + place),
    );
    return { tokens: NO_TOKENS, count: 0, placeOf: () => 0, take: async () => drafted };
  }
}

/** Two sequences: of 7 tokens in blocks 5 and 2, of 8 tokens in blocks 1 and 6. */
const step: StepInput = {
  ...{ tokens: 4, sequences: 2, tokenIds: new Int32Array(4), positions: Int32Array.of(5, 6, 6, 7) },
  ...{ queryStarts: Int32Array.of(0, 2, 4), contextLengths: Int32Array.of(7, 8) },
  tables: [{ slots: new Int32Array(4), blockTables: Int32Array.of(5, 2, 0, 0, 1, 6, 0, 0) }],
  ...{ queryLengthMax: 2, contextLengthMax: 8 },
};
const NO_TOKENS: DeviceTensor = { dtype: "i32", shape: [0] };

function seed(rows: readonly number[], position: number, length: number): DraftSeed {
  const shape = { length, width: 1 };
  return { rows: Int32Array.from(rows), position, root: 9, shape, sampling: null };
}

/** A pool whose block b has bytes of 1 + b, and what its blocks have. */
function poolOf(device: Device, count: number) {
  const pool: KvPool = device.allocateKvPool({ ...shape, blocks: count });
  const host = device.allocateHostBlocks(pool, count);
  const pairs = Int32Array.from({ length: 2 * count }, (_, at) => at >> 1);
  for (let block = 0; block < count; block++) device.hostBlock(host, block).fill(1 + block);
  device.onboardBlocks(pool, host, pairs);
  const contents = () => {
    device.offloadBlocks(pool, host, pairs);
    return Array.from({ length: count }, (_, block) => device.hostBlock(host, block)[0]);
  };
  return { pool, contents };
}

test.for(devices)(
  "[SP14] a draft is computed in scratch blocks alone, on $kind",
  async (device) => {
    const each = scratchBlocks({ ...limits, takesFirstSlot: false });
    const { pool, contents } = poolOf(device, blocks + 3 * each);
    const network = new RecordingNetwork();
    const drafter = new KvDrafter({ device, network, cache: pool, blocks });
    drafter.follow(step, NO_TOKENS);
    // The last two rows of the first sequence, the last row of the second, and a fork of that one.
    const trees = await drafter.draft([seed([0, 1], 5, 6), seed([3], 7, 2), seed([3], 7, 4)]);
    expect(trees.map(({ tokens }) => [...tokens])).toEqual([
      [9, 7, 8, 9, 10, 11, 12],
      [9, 8, 9],
      [9, 8, 9, 10, 11],
    ]);
    const tables = network.contexts.map(({ table }) => [...table]);
    const first = blocks + each;
    expect(tables).toEqual([
      [5, 8, 9, 10],
      [1, 6, first, first + 1, first + 2],
      [1, 6, first + each, first + each + 1, first + each + 2],
    ]);
    // Positions from the root's on are in scratch, and no two drafts share any.
    const written = network.contexts.flatMap(({ position, length, table }) =>
      [...table.slice(Math.floor(position / blockTokens))].slice(
        0,
        Math.ceil(((position % blockTokens) + length) / blockTokens),
      ),
    );
    expect(Math.min(...written)).toBe(blocks);
    expect(new Set(written).size).toBe(written.length);
    expect(Math.max(...tables.flat())).toBeLessThan(pool.blocks);
    // The first sequence's second block is partly filled: its copy is the draft's first block.
    const kept = contents();
    expect(kept.slice(0, blocks)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(kept[blocks]).toBe(3);
  },
);

test("more drafts than there is scratch for are refused", async () => {
  const [device] = devices;
  if (device === undefined) throw new Error("no device");
  const { pool } = poolOf(device, blocks + scratchBlocks({ ...limits, takesFirstSlot: false }));
  const network = new RecordingNetwork();
  const drafter = new KvDrafter({ device, network, cache: pool, blocks });
  drafter.follow(step, NO_TOKENS);
  await expect(drafter.draft([seed([1], 6, 1), seed([3], 7, 1)])).rejects.toThrow(/no scratch/);
});

test("[SP17] each continuation of a tree is computed in scratch of its own", async () => {
  const [device] = devices;
  if (device === undefined) throw new Error("no device");
  const each = scratchBlocks({ ...limits, takesFirstSlot: true });
  const { pool, contents } = poolOf(device, blocks + 3 * each);
  const network = new RecordingNetwork(true);
  const drafter = new KvDrafter({ device, network, cache: pool, blocks });
  drafter.follow(step, NO_TOKENS);
  const [tree] = await drafter.draft([
    { ...seed([0, 1], 5, 3), shape: { length: 3, width: 2 } },
    seed([3], 7, 2),
  ]);
  // Both chains of the network begin alike: one path.
  expect([...(tree?.tokens ?? [])]).toEqual([9, 7, 8, 9]);
  expect(network.contexts.map(({ rank }) => rank)).toEqual([0, 1, 0]);
  const firsts = [0, 1, 2].map((chain) => blocks + chain * each);
  expect(network.contexts.map(({ table }) => [table[0], table[1]])).toEqual([
    [blocks + each - 1, blocks],
    [blocks + 2 * each - 1, blocks + each],
    [blocks + 3 * each - 1, 6],
  ]);
  // Copies of the sequences' first blocks, 5 and 1, and of the partly filled block 2.
  const kept = contents();
  const copied = (block: number | undefined) => kept[block ?? 0];
  expect(firsts.map((first) => copied(first + each - 1))).toEqual([6, 6, 2]);
  expect([copied(firsts[0]), copied(firsts[1])]).toEqual([3, 3]);
});

test.for([
  [1, 1, 1],
  [4, 1, 1],
  [4, 2, 2],
  [4, 6, 3],
  [16, 4, 2],
] as const)("%i tokens a block and drafts of %i take %i blocks", ([size, lengthMax, wanted]) => {
  expect(scratchBlocks({ blockTokens: size, lengthMax, takesFirstSlot: false })).toBe(wanted);
});
