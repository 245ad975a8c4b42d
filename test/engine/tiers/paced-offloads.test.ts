import { expect, test } from "vitest";
import { seedFrom, uniformAt } from "#base";
import { type BlockMove, blockId, type DiskJob, type PeerJob } from "#kvcache";
import { PacedOffloads } from "../../../src/engine/tiers/paced-offloads.ts";
import { sized } from "../../support/full.ts";
import { file } from "./mover-setup.ts";

const DEVICE = 40;
const HOST = 30;
const SLICE = 4;

const offload = (from: number, to: number): BlockMove => ({
  kind: "offload",
  from: blockId(from),
  to: blockId(DEVICE + to),
});
const onboard = (from: number, to: number): BlockMove => ({
  kind: "onboard",
  from: blockId(DEVICE + from),
  to: blockId(to),
});
const receive = (block: number): PeerJob => ({
  kind: "receive",
  transfer: 1,
  piece: block,
  block: blockId(block),
});
const write = (host: number): DiskJob => ({
  kind: "write",
  host: blockId(DEVICE + host),
  disk: blockId(DEVICE + HOST),
  file: file(1),
});

/**
 * Levels of numbers instead of blocks, and turns instead of time: in one the ops that were enqueued
 * end, in the next the slice has left, and so on.
 */
class Bench {
  readonly memory: number[] = Array.from({ length: DEVICE + HOST }, (_, block) => block);
  readonly begun: number[] = [];
  /** Blocks whose jobs have not begun: their places are held. */
  readonly held = new Set<number>();
  readonly paced: PacedOffloads;
  /** Whether the device still carries slices out. */
  isWell = true;
  readonly failed: number[] = [];
  #turns: (() => void)[] = [];
  /** Offloads beside the ops that have not happened: what follows on the device comes after them. */
  #leaving: readonly BlockMove[] = [];

  constructor() {
    this.paced = new PacedOffloads({
      sliceBlocks: SLICE,
      isOnDevice: (block) => block < DEVICE,
      enqueuedDone: () => this.#nextTurn(),
      leave: async (moves) => {
        if (!this.isWell) return false;
        this.#leaving = moves;
        await this.#nextTurn();
        this.#left();
        return true;
      },
      fill: (jobs, isFree) => this.#fill(jobs, isFree),
      issue: (moves, jobs) => this.#issue(moves, jobs),
    });
  }

  #nextTurn(): Promise<void> {
    return new Promise((resolve) => void this.#turns.push(resolve));
  }

  #left(): void {
    for (const { from, to } of this.#leaving) this.memory[to] = this.memory[from] ?? -1;
    this.#leaving = [];
  }

  /** Returns what disk jobs read. */
  carryOut(moves: readonly BlockMove[], jobs: readonly DiskJob[], peerJobs: readonly PeerJob[]) {
    for (const { block } of peerJobs) this.held.add(block);
    const now = this.paced.take({ moves, jobs, peerJobs });
    this.#issue(now.moves, now.peerJobs);
    // A job reads behind all moves.
    if (now.jobs.length > 0) this.#left();
    const read = now.jobs.map((job) => (job.kind === "delete" ? -1 : this.memory[job.host]));
    void this.paced.start();
    return read;
  }

  /** Lets the next slice begin; false: nothing waits. */
  async turn(): Promise<boolean> {
    const turns = this.#turns;
    this.#turns = [];
    for (const turn of turns) turn();
    for (let i = 0; i < 8; i++) await Promise.resolve();
    return turns.length > 0;
  }

  #issue(moves: readonly BlockMove[], jobs: readonly PeerJob[]): void {
    if (moves.length + jobs.length > 0) this.#left();
    for (const { from, to } of moves) this.memory[to] = this.memory[from] ?? -1;
    this.#fill(jobs, true);
  }

  /** What comes is 1000 and the place. */
  #fill(jobs: readonly PeerJob[], isFree: boolean): void {
    for (const { block } of jobs) {
      this.held.delete(block);
      if (!isFree) this.failed.push(block);
      else {
        this.memory[block] = 1000 + block;
        this.begun.push(block);
      }
    }
  }
}

test("[KV82] room for many blocks is made slice by slice, and jobs begin behind their slice", async () => {
  const bench = new Bench();
  const blocks = Array.from({ length: 10 }, (_, at) => at);
  bench.carryOut(
    blocks.map((block) => offload(block, block)),
    [],
    blocks.map(receive),
  );
  // Steps that were enqueued may still read what leaves.
  expect(bench.memory[DEVICE]).toBe(DEVICE);
  await bench.turn();
  expect(bench.begun).toEqual([]);
  await bench.turn();
  expect(bench.begun).toEqual([0, 1, 2, 3]);
  await bench.turn();
  expect(bench.begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  await bench.turn();
  expect(bench.begun).toEqual(blocks);
  expect(bench.memory.slice(DEVICE, DEVICE + 10)).toEqual(blocks);
  expect(bench.memory.slice(0, 10)).toEqual(blocks.map((block) => 1000 + block));
  expect(await bench.turn()).toBe(false);
});

test("[KV82] where the device fails, the blocks that come fail", async () => {
  const bench = new Bench();
  const blocks = Array.from({ length: 10 }, (_, at) => at);
  bench.carryOut(
    blocks.map((block) => offload(block, block)),
    [],
    blocks.map(receive),
  );
  await bench.turn();
  await bench.turn();
  bench.isWell = false;
  while (await bench.turn());
  expect(bench.begun).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
  expect(bench.failed).toEqual([8, 9]);
});

test("[KV82] few blocks, and contents that leave for no block that comes, leave at once", () => {
  const bench = new Bench();
  const few = [0, 1, 2, 3];
  bench.carryOut(
    few.map((block) => offload(block, block)),
    [],
    few.map(receive),
  );
  expect(bench.begun).toEqual(few);
  const many = Array.from({ length: 10 }, (_, at) => 10 + at);
  bench.carryOut(
    many.map((block) => offload(block, block)),
    [],
    [],
  );
  expect(bench.memory.slice(DEVICE + 10, DEVICE + 20)).toEqual(many);
});

test("[KV82] what touches a block that waits comes after all of them", () => {
  const blocks = Array.from({ length: 10 }, (_, at) => at);
  const begin = () => {
    const bench = new Bench();
    bench.carryOut(
      blocks.map((block) => offload(block, block)),
      [],
      blocks.map(receive),
    );
    return bench;
  };
  const toDisk = begin();
  expect(toDisk.carryOut([], [write(20)], [])).toEqual([DEVICE + 20]);
  expect(toDisk.begun).toEqual([]);
  expect(toDisk.carryOut([], [write(9)], [])).toEqual([9]);
  expect(toDisk.begun).toEqual(blocks);

  const back = begin();
  back.carryOut([onboard(8, 30)], [], []);
  expect([back.memory[30], back.begun.length]).toEqual([8, 10]);

  const written = begin();
  expect(written.carryOut([], [write(5)], [])).toEqual([5]);
});

test("[KV82] in any order every level has what it has where all leaves at once", async () => {
  const key = seedFrom(82);
  let draws = 0;
  const below = (count: number) => Math.floor(uniformAt(key, draws++) * count);
  for (let round = 0; round < sized(300, 20_000); round++) {
    const bench = new Bench();
    const wanted = [...bench.memory];
    for (let step = 0; step < 8; step++) {
      const free = shuffled(DEVICE, below).filter((block) => !bench.held.has(block));
      const hosts = shuffled(HOST, below);
      const count = below(12);
      const moves: BlockMove[] = [];
      const comes: PeerJob[] = [];
      for (let i = 0; i < count; i++) {
        const [from, to] = [free.pop() ?? 0, below(4) === 0 ? below(HOST) : (hosts.pop() ?? 0)];
        moves.push(offload(from, to));
        if (below(8) > 0) comes.push(receive(from));
      }
      if (below(3) === 0) moves.push(onboard(below(HOST), free.pop() ?? 0));
      const jobs = below(3) === 0 ? [write(below(HOST))] : [];
      for (const { from, to } of moves) wanted[to] = wanted[from] ?? -1;
      for (const { block } of comes) wanted[block] = 1000 + block;
      const read = bench.carryOut(moves, jobs, comes);
      expect(read).toEqual(jobs.map((job) => (job.kind === "delete" ? -1 : wanted[job.host])));
      if (below(2) === 0) await bench.turn();
    }
    if (below(2) === 0) bench.paced.flush();
    while (await bench.turn());
    expect(bench.memory).toEqual(wanted);
  }
});

function shuffled(count: number, below: (count: number) => number): number[] {
  const all = Array.from({ length: count }, (_, at) => at);
  for (let at = count - 1; at > 0; at--) {
    const other = below(at + 1);
    [all[at], all[other]] = [all[other] ?? 0, all[at] ?? 0];
  }
  return all;
}
