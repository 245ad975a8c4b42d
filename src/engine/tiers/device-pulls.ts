/** Copies of blocks from other engines' devices of this machine. */
import type { Clock, Timer } from "#base";
import type { Device, KvPool, MovesMark, PeerPool } from "#devices";
import type { ForeignRange } from "#transfer";

/** What is copied in one call: of one pool to one of this engine's. */
interface Batch {
  readonly peer: PeerPool;
  readonly cache: KvPool;
  readonly pairs: number[];
  readonly settle: ((ok: boolean) => void)[];
}

/** Pools of one engine, one for each part of a block. */
interface Opened {
  readonly pools: readonly PeerPool[];
  pulls: number;
  forgotten: boolean;
}

export interface DevicePullsOptions {
  readonly device: Device;
  /** This engine's pools, one for each part of a block. */
  readonly caches: readonly KvPool[];
  readonly clock: Clock;
  readonly timer: Timer;
  readonly warn: (message: string) => void;
}

/** Most copies are done within this time: their ends are looked for in every turn of the loop. */
const BUSY_MS = 2;
const LOOK_MS = 1;

/**
 * Describes this engine's pools to others, and copies blocks from theirs. The pools of an engine
 * lie behind each other in one range of offsets.
 */
export class DevicePulls {
  readonly #options: DevicePullsOptions;
  readonly #opened = new Map<string, Opened | null>();
  #batches: Batch[] = [];

  constructor(options: DevicePullsOptions) {
    this.#options = options;
  }

  /** Of this engine's pools. Throws where the system refuses. */
  describe(): { readonly description: string; readonly bytes: number } {
    const { device, caches } = this.#options;
    const description = JSON.stringify(caches.map((cache) => device.describePool(cache)));
    return { description, bytes: bytesOf(caches) };
  }

  /** Where a block of this engine is, part by part. */
  placesOf(block: number): readonly { readonly offset: number; readonly bytes: number }[] {
    let start = 0;
    return this.#options.caches.map(({ blocks, bytesPerBlock }) => {
      const offset = start + block * bytesPerBlock;
      start += blocks * bytesPerBlock;
      return { offset, bytes: bytesPerBlock };
    });
  }

  /**
   * Copies a block of another engine, and settles when nothing touches either side any more; false:
   * it was not copied. No op may use `block` meanwhile.
   */
  async pull(block: number, from: readonly ForeignRange[]): Promise<boolean> {
    const { caches } = this.#options;
    const [first] = from;
    if (first === undefined || from.length !== caches.length) return false;
    const opened = this.#open(first);
    if (opened === null) return false;
    opened.pulls++;
    const copies = from.map((range, part) => this.#copy(opened, { range, part, block }));
    const isCopied = (await Promise.all(copies)).every((ok) => ok);
    opened.pulls--;
    this.#closeUnused(opened);
    return isCopied;
  }

  /** Nothing more is pulled with a description: its pools are closed after those under way. */
  forget(description: string): void {
    const opened = this.#opened.get(description) ?? null;
    this.#opened.delete(description);
    if (opened === null) return;
    opened.forgotten = true;
    this.#closeUnused(opened);
  }

  /** Nothing may be under way. */
  close(): void {
    for (const description of [...this.#opened.keys()]) this.forget(description);
  }

  #closeUnused({ pools, pulls, forgotten }: Opened): void {
    if (forgotten && pulls === 0) for (const pool of pools) this.#options.device.release(pool);
  }

  /** Null: it cannot be reached, which is told once. */
  #open({ description, memoryBytes }: ForeignRange): Opened | null {
    const known = this.#opened.get(description);
    if (known !== undefined) return known;
    let opened: Opened | null = null;
    try {
      opened = { pools: this.#poolsOf(description, memoryBytes), pulls: 0, forgotten: false };
    } catch (error) {
      this.#options.warn(
        `Cannot copy keys and values from another engine's device: ${String(error)}; they come ` +
          "through host memory",
      );
    }
    this.#opened.set(description, opened);
    return opened;
  }

  #poolsOf(description: string, memoryBytes: number): readonly PeerPool[] {
    const { device, caches } = this.#options;
    const texts: unknown = JSON.parse(description);
    if (!Array.isArray(texts) || texts.length !== caches.length) {
      throw new Error("it has blocks of another kind");
    }
    const pools: PeerPool[] = [];
    try {
      for (const [part, cache] of caches.entries()) {
        pools.push(device.openPeerPool(String(texts[part]), cache));
      }
      if (bytesOf(pools) !== memoryBytes) throw new Error("it has another size than it says");
    } catch (error) {
      for (const pool of pools) device.release(pool);
      throw error;
    }
    return pools;
  }

  #copy(
    { pools }: Opened,
    { range, part, block }: { range: ForeignRange; part: number; block: number },
  ): Promise<boolean> {
    const [peer, cache] = [pools[part], this.#options.caches[part]];
    if (peer === undefined || cache === undefined) return Promise.resolve(false);
    const from = (range.offset - bytesOf(pools.slice(0, part))) / peer.bytesPerBlock;
    const isBlock = Number.isInteger(from) && from >= 0 && from < peer.blocks;
    if (!isBlock || range.bytes !== peer.bytesPerBlock) return Promise.resolve(false);
    return new Promise((settle) => {
      if (this.#batches.length === 0) queueMicrotask(() => this.#flush());
      let batch = this.#batches.find((each) => each.peer === peer);
      if (batch === undefined) {
        batch = { peer, cache, pairs: [], settle: [] };
        this.#batches.push(batch);
      }
      batch.pairs.push(from, block);
      batch.settle.push(settle);
    });
  }

  /** All pieces that came in one turn go in one call. */
  #flush(): void {
    const batches = this.#batches;
    this.#batches = [];
    for (const { peer, cache, pairs, settle } of batches) {
      const end = (ok: boolean) => {
        for (const each of settle) each(ok);
      };
      try {
        const mark = this.#options.device.pullBlocks(cache, peer, Int32Array.from(pairs));
        this.#await(mark, this.#options.clock.nowMs() + BUSY_MS, end);
      } catch (error) {
        this.#options.warn(`Cannot copy from another engine's device: ${String(error)}`);
        end(false);
      }
    }
  }

  #await(mark: MovesMark, busyUntilMs: number, end: (ok: boolean) => void): void {
    let isDone = false;
    try {
      isDone = mark.isDone();
    } catch {
      end(false); // The device failed, which its steps report.
      return;
    }
    const { clock, timer } = this.#options;
    const again = () => this.#await(mark, busyUntilMs, end);
    if (isDone) end(true);
    else if (clock.nowMs() < busyUntilMs) setImmediate(again);
    else timer.after(LOOK_MS, again);
  }
}

function bytesOf(pools: readonly PeerPool[]): number {
  return pools.reduce((sum, { blocks, bytesPerBlock }) => sum + blocks * bytesPerBlock, 0);
}
