import { describe, expect, test } from "vitest";
import type { BlockMove, KvCache, PeerJob } from "#kvcache";
import { CacheManager, range } from "../support/cache-manager.ts";

const BLOCK = 4;

/** A cache with jobs of transfers, which `finish` ends. */
class Peer {
  readonly manager: CacheManager;
  readonly moves: BlockMove[] = [];
  jobs: PeerJob[] = [];

  constructor({ blocks = 16, hostBlocks = 16 } = {}) {
    this.manager = new CacheManager({ blocks, blockTokens: BLOCK, hostBlocks, events: null });
  }

  get cache(): KvCache {
    return this.manager.cache;
  }

  take(): readonly PeerJob[] {
    this.moves.push(...this.cache.takeMoves());
    const jobs = this.cache.peers.takeJobs();
    this.jobs.push(...jobs);
    return jobs;
  }

  /** Ends the jobs that were taken, or those of `pieces`, in that order. */
  finish(ok = true, pieces: readonly number[] | null = null) {
    const ofPiece = (piece: number) => this.jobs.find((job) => job.piece === piece) as PeerJob;
    const jobs = pieces?.map(ofPiece) ?? this.jobs;
    this.jobs = this.jobs.filter((job) => !jobs.includes(job));
    return jobs.map((job) => this.cache.peers.finish({ job, ok }));
  }

  /** Cached full blocks of a prompt, by level. */
  levels(prompt: readonly number[]): number[] {
    const { blocks } = this.cache.match("", Int32Array.from([...prompt, -1]));
    return blocks.map((block) => this.cache.levelOf(block));
  }

  held(): number[] {
    this.cache.audit([]);
    return [this.cache.poolStats(0).held, this.cache.poolStats(1).held];
  }
}

const prompt = range(1, 16);
const lookUp = (tokens: readonly number[]) => ({
  ...{ scope: "", keys: null },
  tokens: Int32Array.from(tokens),
});

describe("blocks that are sent", () => {
  test("[KV48] leave from host memory, in order, and are held until their jobs end", () => {
    const peer = new Peer();
    peer.manager.pass([...prompt, 99]);
    const { sends } = peer.cache.peers;
    sends.start(1, { prompt: lookUp(prompt), from: 1, level: "host" });
    expect(sends.advance(1, 4)).toBe(4);
    const jobs = peer.take();
    expect(jobs.map(({ kind, piece }) => [kind, piece])).toEqual([
      ["send", 0],
      ["send", 1],
      ["send", 2],
    ]);
    expect(peer.moves.map(({ kind }) => kind)).toEqual(["offload", "offload", "offload"]);
    expect(jobs.map(({ block }) => peer.cache.levelOf(block))).toEqual([1, 1, 1]);
    expect(peer.held()).toEqual([0, 3]);
    peer.finish(true, [0]);
    sends.end(1);
    expect(peer.held()).toEqual([0, 2]);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.cache.peers.stats.sent).toBe(3);
    expect(peer.levels(prompt)).toEqual([0, 0, 0, 0]);
  });

  test("[KV48] follow as their contents are stored, and only once", () => {
    const peer = new Peer();
    const { sends } = peer.cache.peers;
    sends.start(1, { prompt: lookUp(prompt), from: 0, level: "host" });
    expect(sends.advance(1, 4)).toBe(0);
    peer.manager.pass(prompt.slice(0, 9));
    expect(sends.advance(1, 4)).toBe(2);
    expect(sends.advance(1, 4)).toBe(2);
    peer.manager.pass([...prompt, 99]);
    expect(sends.advance(1, 4)).toBe(4);
    expect(peer.take().map(({ piece }) => piece)).toEqual([0, 1, 2, 3]);
    sends.end(1);
    peer.finish(false);
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.cache.peers.stats.sent).toBe(0);
  });

  test("[KV49] are on their way a quarter of the host level at a time", () => {
    const peer = new Peer({ hostBlocks: 8 });
    peer.manager.pass([...prompt, 99]);
    const { sends } = peer.cache.peers;
    sends.start(1, { prompt: lookUp(prompt), from: 0, level: "host" });
    sends.advance(1, 4);
    expect(peer.take().map(({ piece }) => piece)).toEqual([0, 1]);
    expect(peer.held()).toEqual([2, 2]);
    peer.finish(true, [1]);
    expect(peer.take().map(({ piece }) => piece)).toEqual([2]);
    sends.end(1);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
  });
});

describe("blocks that leave from the device", () => {
  const start = { prompt: lookUp(prompt), from: 0, level: "device" } as const;

  test("[KV55] all at a time, without host memory, held until their jobs end", () => {
    const peer = new Peer({ hostBlocks: 4 });
    peer.manager.pass([...prompt, 99]);
    const { sends } = peer.cache.peers;
    expect(sends.reach(start, 4)).toBe(4);
    sends.start(1, start);
    expect(sends.advance(1, 4)).toBe(4);
    const jobs = peer.take();
    expect(jobs.map(({ piece, block }) => [piece, peer.cache.levelOf(block)])).toEqual([
      [0, 0],
      [1, 0],
      [2, 0],
      [3, 0],
    ]);
    expect(peer.moves).toEqual([]);
    expect(peer.held()).toEqual([4, 0]);
    peer.finish(true, [0, 2]);
    expect(peer.held()).toEqual([2, 0]);
    sends.end(1);
    peer.finish(false);
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.cache.peers.stats.sent).toBe(2);
  });

  test("[KV55] not those that are in host memory, until they are back", () => {
    const peer = new Peer({ blocks: 6 });
    peer.manager.pass([...prompt, 99]);
    peer.manager.pass(range(100, 120));
    expect(peer.levels(prompt)).toContain(1);
    const { sends } = peer.cache.peers;
    expect(sends.reach(start, 4)).toBeLessThan(4);
    expect(sends.reach({ ...start, level: "host" }, 4)).toBe(4);
    sends.start(1, start);
    const found = sends.advance(1, 4);
    expect(found).toBeLessThan(4);
    peer.take();
    peer.finish();
    peer.manager.pass([...prompt, 99]);
    expect(sends.advance(1, 4)).toBe(4);
    const jobs = peer.take();
    expect(jobs.every(({ block }) => peer.cache.levelOf(block) === 0)).toBe(true);
    sends.end(1);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
  });

  test("[KV55] a waiting sequence ends them, also those on their way", () => {
    const peer = new Peer();
    peer.manager.pass([...prompt, 99]);
    const { sends } = peer.cache.peers;
    sends.start(1, start);
    sends.advance(1, 4);
    peer.take();
    expect(peer.cache.peers.yieldDevice()).toEqual([1]);
    expect(peer.cache.peers.yieldDevice()).toBeNull();
    expect(peer.held()).toEqual([4, 0]);
    peer.finish(false);
    expect(peer.held()).toEqual([0, 0]);
  });
});

describe("partly filled last blocks", () => {
  const short = prompt.slice(0, 14);

  test.each(["host", "device"] as const)(
    "[KV57] are sent from what begins with them: %s",
    (level) => {
      const peer = new Peer();
      const { sends } = peer.cache.peers;
      const start = { prompt: lookUp(short), from: 0, level };
      expect(sends.reach(start, 4)).toBe(0);
      // Two more tokens, so that the block is full.
      peer.manager.pass([...prompt, 99]);
      expect(sends.reach(start, 4)).toBe(4);
      sends.start(1, start);
      expect(sends.advance(1, 4)).toBe(4);
      expect(peer.take().map(({ piece }) => piece)).toEqual([0, 1, 2, 3]);
      sends.end(1);
      peer.finish();
      expect(peer.held()).toEqual([0, 0]);
      // One token less than is wanted does not do.
      const other = new Peer();
      other.manager.pass([...prompt.slice(0, 13), 99]);
      expect(other.cache.peers.sends.reach(start, 4)).toBe(3);
    },
  );

  test.each(["host", "device"] as const)(
    "[KV57] are found, copied, and evicted first: %s",
    (level) => {
      const peer = new Peer();
      const { receives } = peer.cache.peers;
      expect(receives.start(7, lookUp(short), { from: 0, to: 4, level })).toBe(4);
      peer.take();
      expect(peer.finish().at(-1)).toEqual({ transfer: 7, blocks: 4 });
      const match = peer.cache.match("", Int32Array.from([...short, -1]));
      expect([match.tokens, match.partial?.tokens]).toEqual([14, 2]);
      const tail = match.partial?.block;
      const sequence = peer.manager.add([...short, 77]);
      expect(sequence.cached).toBe(14);
      expect(sequence.table.get(3)).not.toBe(tail);
      receives.end(7);
      peer.manager.remove(sequence);
      expect(peer.held()).toEqual([0, 0]);
      const again = peer.cache.match("", Int32Array.from([...short, 77, -1]));
      expect(again.tokens).toBe(14);
    },
  );
});

describe("blocks that come to the device", () => {
  test("[KV56] are stored there, found, and held until the transfer ends", () => {
    const peer = new Peer({ hostBlocks: 0 });
    peer.manager.pass(prompt.slice(0, 5));
    const { receives } = peer.cache.peers;
    expect(receives.start(7, lookUp(prompt), { from: 1, to: 4, level: "device" })).toBe(3);
    expect(peer.take().map(({ block }) => peer.cache.levelOf(block))).toEqual([0, 0, 0]);
    expect(peer.finish(true, [1, 0])).toEqual([null, null]);
    expect(peer.finish(true, [2])).toEqual([{ transfer: 7, blocks: 4 }]);
    expect(peer.levels(prompt)).toEqual([0, 0, 0, 0]);
    expect(peer.held()[0]).toBe(4);
    receives.end(7);
    expect(peer.held()[0]).toBe(0);
  });

  test("[KV56] take room for all or none, and no more than half of it", () => {
    const peer = new Peer({ blocks: 16 });
    const { receives } = peer.cache.peers;
    const start = (transfer: number, seed: number, blocks: number) =>
      receives.start(transfer, lookUp(range(seed, seed + 4 * blocks)), {
        ...{ from: 0, to: blocks, level: "device" },
      });
    expect(start(1, 100, 9)).toBe(0);
    expect(start(1, 100, 5)).toBe(5);
    expect(start(2, 300, 4)).toBe(0);
    expect(start(2, 300, 3)).toBe(3);
    peer.take();
    expect(peer.held()).toEqual([8, 0]);
    receives.end(1);
    peer.finish(false);
    expect(peer.held()).toEqual([0, 0]);
    receives.end(2);
    // Of those that were ended before nothing was missed.
    expect(peer.cache.peers.stats.missed).toBe(3);
    expect(start(3, 500, 8)).toBe(8);
    receives.end(3);
    peer.take();
    peer.finish(false);
    expect(peer.held()).toEqual([0, 0]);
  });

  test("[KV56] leave a sixteenth of the device to sequences that run", () => {
    const peer = new Peer({ blocks: 16 });
    const { receives } = peer.cache.peers;
    const running = peer.manager.add(range(1, 44));
    const start = { from: 0, to: 5, level: "device" } as const;
    expect(receives.start(1, lookUp(range(100, 120)), start)).toBe(0);
    expect(receives.start(1, lookUp(range(100, 120)), { ...start, to: 4 })).toBe(4);
    receives.end(1);
    peer.take();
    peer.finish(false);
    peer.manager.remove(running);
    expect(peer.held()).toEqual([0, 0]);
  });
});

describe("blocks that come", () => {
  test("[KV50] are stored in the prompt's order, found, and held until the transfer ends", () => {
    const peer = new Peer();
    peer.manager.pass(prompt.slice(0, 5));
    const { receives } = peer.cache.peers;
    expect(receives.start(7, lookUp(prompt), { from: 1, to: 4, level: "host" })).toBe(3);
    expect(peer.take()).toHaveLength(3);
    expect(peer.finish(true, [1, 2])).toEqual([null, null]);
    expect(peer.levels(prompt)).toEqual([0]);
    expect(peer.finish(true, [0])).toEqual([{ transfer: 7, blocks: 4 }]);
    expect(peer.levels(prompt)).toEqual([0, 1, 1, 1]);
    expect(peer.held()).toEqual([1, 3]);
    receives.end(7);
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.cache.peers.stats.received).toBe(3);
  });

  test("[KV51] end at the first that does not come", () => {
    const peer = new Peer();
    const { receives } = peer.cache.peers;
    receives.start(7, lookUp(prompt), { from: 0, to: 4, level: "host" });
    peer.take();
    peer.finish(false, [2]);
    peer.finish(true, [3, 0]);
    expect(peer.finish(true, [1])).toEqual([{ transfer: 7, blocks: 2 }]);
    expect(peer.levels(prompt)).toEqual([1, 1]);
    expect(peer.held()).toEqual([0, 2]);
    receives.end(7);
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.cache.peers.stats).toEqual({ sent: 0, received: 2, missed: 1 });
  });

  test("[KV51] store nothing once their transfer has ended, and free their room", () => {
    const peer = new Peer();
    const { receives } = peer.cache.peers;
    receives.start(7, lookUp(prompt), { from: 0, to: 4, level: "host" });
    peer.take();
    peer.finish(true, [0]);
    receives.end(7);
    expect(peer.held()).toEqual([0, 3]);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
    expect(peer.levels(prompt)).toEqual([1]);
  });

  test("[KV50] need the prefix that they continue, and take the room that there is", () => {
    const peer = new Peer({ hostBlocks: 3 });
    const { receives } = peer.cache.peers;
    expect(receives.start(1, lookUp(prompt), { from: 1, to: 4, level: "host" })).toBe(0);
    expect(peer.held()).toEqual([0, 0]);
    expect(receives.start(1, lookUp(prompt), { from: 0, to: 4, level: "host" })).toBe(2);
    expect(receives.start(2, lookUp(range(100, 116)), { from: 0, to: 4, level: "host" })).toBe(0);
    peer.take();
    receives.end(1);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
  });

  test("[KV52] give way to what was computed meanwhile", () => {
    const peer = new Peer();
    const { receives } = peer.cache.peers;
    receives.start(7, lookUp(prompt), { from: 0, to: 4, level: "host" });
    peer.take();
    peer.manager.pass(prompt.slice(0, 9));
    peer.finish();
    expect(peer.levels(prompt)).toEqual([0, 0, 1, 1]);
    expect(peer.held()).toEqual([2, 2]);
    receives.end(7);
    expect(peer.held()).toEqual([0, 0]);
  });

  test("[KV53] take three quarters of the host level at most, all together, and give it back", () => {
    const peer = new Peer({ hostBlocks: 8 });
    const { receives } = peer.cache.peers;
    const start = (transfer: number) =>
      receives.start(transfer, lookUp(range(100 * transfer, 100 * transfer + 17)), {
        ...{ from: 0, to: 4, level: "host" },
      });
    expect([start(1), start(2), start(3)]).toEqual([4, 2, 0]);
    peer.take();
    receives.end(2);
    expect(start(3)).toBe(0);
    peer.finish();
    expect(start(3)).toBe(2);
    peer.take();
    peer.finish();
    for (const transfer of [1, 3]) receives.end(transfer);
    expect(start(4)).toBe(4);
    peer.take();
    receives.end(4);
    peer.finish();
    expect(peer.held()).toEqual([0, 0]);
  });
});

describe("blocks of the device that transfers hold", () => {
  test("[KV54] are released on demand: a send ends, and what came is stored where it can be", () => {
    const peer = new Peer({ hostBlocks: 8 });
    const { peers } = peer.cache;
    peer.manager.pass([...prompt, 99]);
    peers.sends.start(1, { prompt: lookUp(prompt), from: 0, level: "host" });
    peers.sends.advance(1, 4);
    const other = range(200, 216);
    peer.manager.pass(other.slice(0, 5));
    expect(peers.receives.start(2, lookUp(other), { from: 1, to: 3, level: "host" })).toBe(2);
    peer.take();
    expect(peer.held()).toEqual([3, 4]);
    expect(peers.yieldDevice()).toEqual([1]);
    expect(peer.held()).toEqual([0, 4]);
    expect(peers.yieldDevice()).toBeNull();
    peer.finish();
    expect(peer.levels(other)).toEqual([0, 1, 1]);
    peers.receives.end(2);
    expect(peer.held()).toEqual([0, 0]);
  });
});
