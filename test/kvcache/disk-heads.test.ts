import { expect, test } from "vitest";
import { IntList } from "#base";
import { type BlockFile, BlockTable, KvCache } from "#kvcache";
import type { NodeId } from "../../src/kvcache/contents/prefix-tree.ts";

const BLOCK_TOKENS = 2;
/** Three blocks, in every prompt, so that they never leave the device. */
const SYSTEM = [1, 2, 3, 4, 5, 6];
/** Prompts of four full blocks and a token. */
const PROMPTS = [10, 20, 30, 40, 50].map((end) => [...SYSTEM, end, end + 1, end + 2]);

/** A cache whose disk does at once what it is told. */
class DiskCache {
  readonly cache: KvCache;
  /** By name, in the order in which they were written. */
  readonly files = new Map<string, BlockFile>();
  /** Blocks that arrived in host memory from the device. */
  offloads = 0;
  /** Whether writes fail. */
  refuses = false;

  constructor(shape: { readonly hostBlocks: number; readonly diskBlocks: number }) {
    this.cache = new KvCache({ blocks: 7, blockTokens: BLOCK_TOKENS, ...shape });
  }

  /** One step: a prompt is computed, and forgotten by its owner. */
  compute(prompt: readonly number[]): void {
    const { cache } = this;
    this.between();
    const tokens = Int32Array.from(prompt);
    const table = new BlockTable("");
    cache.adopt(table, cache.match("", tokens));
    expect(cache.allocate(table, cache.blocksFor(tokens.length) - table.length)).toBe(true);
    cache.publish(table, new IntList(tokens), tokens.length);
    this.carryOut();
    cache.release(table);
    cache.audit([]);
  }

  /** What happens before a step is planned. */
  between(): void {
    this.cache.writeHeads();
    this.carryOut();
  }

  carryOut(): void {
    const moves = this.cache.takeMoves();
    this.offloads += moves.filter(({ kind }) => kind === "offload").length;
    for (const job of this.cache.takeDiskJobs()) {
      if (job.kind === "delete") this.files.delete(job.file.key);
      else if (job.kind === "write" && !this.refuses) {
        this.files.set(job.file.key, job.file);
      }
      if (job.kind !== "delete") this.cache.finishDiskJob({ job, ok: !this.refuses });
    }
  }

  /** Files that a restart would not find, since what comes before them is not there. */
  orphans(): BlockFile[] {
    return [...this.files.values()].filter(
      ({ parentKey }) => parentKey !== null && !this.files.has(parentKey),
    );
  }
}

/** What a new cache finds of a prompt on disk, in blocks. */
function foundAfterRestart(files: Iterable<BlockFile>, prompt: readonly number[]): number {
  const shape = { blocks: 7, blockTokens: BLOCK_TOKENS, hostBlocks: 4, diskBlocks: 20 };
  const cache = new KvCache(shape);
  const nodes = new Map<string, NodeId | null>();
  for (const file of files) {
    const parent = file.parentKey === null ? null : (nodes.get(file.parentKey) ?? null);
    nodes.set(file.key, cache.restore(file, parent));
  }
  return cache.match("", Int32Array.from(prompt)).onDisk.length;
}

test("what comes before blocks on disk is written, too, though it never leaves the device", () => {
  const disk = new DiskCache({ hostBlocks: 4, diskBlocks: 20 });
  for (const prompt of PROMPTS) disk.compute(prompt);
  const { blocks } = disk.cache.match("", Int32Array.from(PROMPTS[0] ?? []));
  expect(blocks.slice(0, 3).every((block) => disk.cache.levelOf(block) === 0)).toBe(true);
  disk.between();
  expect(disk.files.size).toBeGreaterThan(3);
  expect(disk.orphans()).toEqual([]);
  const [device, host] = disk.cache.stats().levels;
  expect(device?.offloaded).toBe(disk.offloads);
  expect([device?.copiedAhead, host?.copiedAhead]).toEqual([3, 0]);
  // Heads are written behind their tails; a folder is read in the order of histories.
  const byDepth = [...disk.files.values()].toSorted((a, b) => depthOf(disk, a) - depthOf(disk, b));
  expect(foundAfterRestart(byDepth, PROMPTS[0] ?? [])).toBe(4);
});

test("a full disk forgets the ends of histories before their heads", () => {
  const disk = new DiskCache({ hostBlocks: 4, diskBlocks: 5 });
  for (const prompt of [...PROMPTS, ...PROMPTS]) disk.compute(prompt);
  disk.between();
  expect(disk.files.size).toBe(5);
  expect(disk.orphans()).toEqual([]);
});

test("where host memory has no room, heads are written later", () => {
  const disk = new DiskCache({ hostBlocks: 1, diskBlocks: 20 });
  for (const prompt of PROMPTS) disk.compute(prompt);
  for (let round = 0; round < 4; round++) disk.between();
  expect(disk.orphans()).toEqual([]);
});

test("a disk that refuses is not asked for heads again before it took something else", () => {
  const disk = new DiskCache({ hostBlocks: 4, diskBlocks: 20 });
  disk.refuses = true;
  for (const prompt of PROMPTS) disk.compute(prompt);
  disk.between();
  disk.cache.writeHeads();
  expect(disk.cache.takeDiskJobs()).toEqual([]);
  expect(disk.cache.takeMoves()).toEqual([]);
});

function depthOf(disk: DiskCache, file: BlockFile): number {
  const parent = file.parentKey === null ? undefined : disk.files.get(file.parentKey);
  return parent === undefined ? 0 : 1 + depthOf(disk, parent);
}
