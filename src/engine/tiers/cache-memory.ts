/**
 * The engine's cache: bookkeeping, and the bytes behind it in all levels. Only this file uses both.
 */
import { type Clock, messageOf, type Timer } from "#base";
import type { Device, HostBlocks, KvPool, KvPoolOptions } from "#devices";
import type { EngineOptions, FlushReport } from "#engine/protocol";
import {
  type CacheMoves,
  type CacheWindow,
  type EndedReceive,
  KvCache,
  LoadCost,
  type LoadCostOptions,
  type NodeId,
} from "#kvcache";
import type { PiecesByWay } from "#transfer";
import { DevicePulls } from "./device-pulls.ts";
import { DiskStore, type OpenedStore } from "./disk-store.ts";
import { flushToDisk } from "./flush.ts";
import { LevelMover } from "./level-mover.ts";
import { checkLevelSizes } from "./level-sizes.ts";
import type { LevelMoverStats } from "./move-stats.ts";
import type { FetchedPieces, PeerLink } from "./peer-link.ts";
import { allocateHost, SharedParts } from "./shared-parts.ts";

/** Options of all levels. */
export interface CacheMemoryOptions {
  readonly device: Device;
  /** The device's pool. */
  readonly memory: KvPoolOptions;
  /**
   * The pool of a drafter's keys and values, the rest of each block: its blocks have the same ids,
   * and those behind them are the drafter's own. Default: null, there is none.
   */
  readonly drafterMemory?: KvPoolOptions | null;
  readonly settings: EngineOptions["kvCache"];
  /** By group of layers: the window that its layers see; null: all positions. */
  readonly windows: readonly (CacheWindow | null)[];
  /** Cost of attention relative to the rest of a token's work: see `LoadCost`. */
  readonly attentionWeight: number;
  /** Hash of all that the blocks' contents depend on; called only where there is a disk level. */
  readonly fingerprint: (layout: string, drafterLayout: string | null) => Promise<string>;
  readonly clock: Clock;
  readonly timer: Timer;
  /** Memory of this machine that is free, in bytes. */
  readonly hostBytesFree: number;
  readonly warn: (message: string) => void;
  /** Called when a job between host memory and disk, or another engine, ended. */
  readonly onFinished: () => void;
  /** Carries blocks to other engines and from them. Default: null, they stay here. */
  readonly peers?: PeerLink | null;
  /** Host blocks that their transfers need at least. Default: few. */
  readonly peerBlocks?: number;
  /** Whether other engines of this machine may reach the device's blocks. Default: true. */
  readonly sharesDevice?: boolean;
}

/** Host memory that blocks pass through on their way to disk where no host level is requested. */
const STAGING_BYTES = 64 * 2 ** 20;
const STAGING_BLOCKS_MIN = 8;
const NOTHING_SENT: PiecesByWay = { bytes: 0, mapped: 0, nixl: 0 };
const NOTHING_FETCHED: FetchedPieces = { pieces: 0, ms: 0 };

/** Parts that `open` makes first. */
interface OpenedParts {
  readonly blocks: KvPool;
  readonly drafterBlocks: KvPool | null;
  readonly cost: LoadCost;
  /** Null: there is no disk level. */
  readonly opened: OpenedStore | null;
}

/** Bookkeeping and bytes of one model's cache. */
export class CacheMemory {
  /** The bookkeeping, which the scheduler owns once it has it. */
  readonly cache: KvCache;
  /** The device's blocks. */
  readonly blocks: KvPool;
  /** The part of these blocks that is a drafter's; null: there is none. */
  readonly drafterBlocks: KvPool | null;
  /** Of a block, in all its parts. */
  readonly bytesPerBlock: number;
  /** Measured costs of fetching and computing. */
  readonly cost: LoadCost;
  /** Engines whose device has the same may reach this one's; null: none can. */
  readonly sharingScope: string | null;
  readonly #device: Device;
  readonly #hosts: readonly HostBlocks[];
  readonly #mover: LevelMover;
  readonly #pulls: DevicePulls | null;
  readonly #shared: SharedParts | null;
  readonly #peers: PeerLink | null;
  readonly #flush: Pick<CacheMemoryOptions, "settings" | "clock" | "timer">;
  #onReceived: (ended: EndedReceive) => void = () => {};

  private constructor(parts: {
    readonly cache: KvCache;
    readonly blocks: KvPool;
    readonly drafterBlocks: KvPool | null;
    readonly cost: LoadCost;
    readonly device: Device;
    readonly hosts: readonly HostBlocks[];
    readonly mover: LevelMover;
    readonly pulls: DevicePulls | null;
    readonly sharingScope: string | null;
    readonly shared: SharedParts | null;
    readonly peers: PeerLink | null;
    readonly flush: Pick<CacheMemoryOptions, "settings" | "clock" | "timer">;
  }) {
    this.cache = parts.cache;
    this.blocks = parts.blocks;
    this.drafterBlocks = parts.drafterBlocks;
    this.bytesPerBlock = bytesOfBlock(parts);
    this.cost = parts.cost;
    this.#device = parts.device;
    this.#hosts = parts.hosts;
    this.#mover = parts.mover;
    this.#pulls = parts.pulls;
    this.sharingScope = parts.sharingScope;
    this.#shared = parts.shared;
    this.#peers = parts.peers;
    this.#flush = parts.flush;
  }

  /** Throws OUT_OF_MEMORY, and INVALID_ARGUMENT for a level that is too small or too large. */
  static async open(options: CacheMemoryOptions): Promise<CacheMemory> {
    const { device, windows, attentionWeight, drafterMemory = null } = options;
    const blocks = device.allocateKvPool(options.memory);
    const drafterBlocks = drafterMemory === null ? null : device.allocateKvPool(drafterMemory);
    const bytesPerBlock = bytesOfBlock({ blocks, drafterBlocks });
    const bytesFree = options.hostBytesFree;
    checkLevelSizes(options.settings, { bytesPerBlock, bytesFree });
    const cost = new LoadCost({
      bytesPerBlock,
      attentionWeight,
      // Layers that see everything are the most work, and those with a window the least.
      window: windows[0]?.tokens ?? null,
    } satisfies LoadCostOptions);
    const opened = await openStore(options, { blocks, drafterBlocks, cost });
    try {
      return await CacheMemory.#fill(options, { blocks, drafterBlocks, cost, opened });
    } catch (error) {
      // Until then no other process could use the folder.
      await opened?.store.close();
      throw error;
    }
  }

  /**
   * Makes the bookkeeping and host memory, and restores blocks that an earlier run left on disk.
   */
  static async #fill(
    options: CacheMemoryOptions,
    { blocks, drafterBlocks, cost, opened }: OpenedParts,
  ): Promise<CacheMemory> {
    const { device, settings, clock, timer, onFinished } = options;
    const bytesPerBlock = bytesOfBlock({ blocks, drafterBlocks });
    const forPeers = Math.min(options.peerBlocks ?? STAGING_BLOCKS_MIN, options.memory.blocks);
    const hostBlocks = Math.max(
      hostBlocksFor(settings, bytesPerBlock, opened !== null),
      options.peers == null ? 0 : forPeers,
    );
    const { peers = null } = options;
    const shared = peers === null ? null : new SharedParts(peers);
    const hostOf = (pool: KvPool) =>
      hostBlocks > 0 ? allocateHost({ device, pool, blocks: hostBlocks, shared }) : null;
    const host = hostOf(blocks);
    const beside = drafterBlocks && { cache: drafterBlocks, host: hostOf(drafterBlocks) };
    const cache = new KvCache({
      blocks: options.memory.blocks,
      blockTokens: options.memory.blockTokens,
      hostBlocks,
      diskBlocks: opened === null ? 0 : Math.floor(settings.diskCacheBytes / bytesPerBlock),
      offloadPriorityMin: settings.offloadPriorityMin,
      prefixCaching: settings.prefixCaching,
      partialReuse: settings.partialReuse,
      copyOnPartialReuse: settings.copyOnPartialReuse,
      evictionPolicy: settings.evictionPolicy,
      windows: options.windows,
      nowMs: () => clock.nowMs(),
      events: settings.eventBufferMax > 0 ? settings.hashAlgorithm : null,
    });
    const store = opened?.store ?? null;
    const caches = drafterBlocks === null ? [blocks] : [blocks, drafterBlocks];
    const pulls =
      peers === null ? null : new DevicePulls({ device, caches, clock, timer, warn: options.warn });
    const ends = { store, clock, timer, onFinished, peers, pulls };
    const mover = new LevelMover({ device, cache: blocks, host, beside, ...ends });
    const measured = await mover.measure();
    if (measured !== null) cost.recordCopy(measured.bytes, measured.ms);
    if (opened !== null) restore(cache, opened);
    const hosts = [host, beside?.host].filter((found) => found != null);
    const sharingScope = place(options, pulls);
    const parts = { cache, blocks, drafterBlocks, cost, device, hosts, mover, pulls, sharingScope };
    return new CacheMemory({ ...parts, shared, peers, flush: { settings, clock, timer } });
  }

  /** Calls back with each transfer from another engine whose last block has come, or failed. */
  onReceived(received: (ended: EndedReceive) => void): void {
    this.#onReceived = received;
  }

  /** The moves and jobs that the bookkeeping decided since the last call, to be carried out. */
  takeMoves(): CacheMoves {
    const { cache } = this;
    const peerJobs = cache.peers.takeJobs();
    return { moves: cache.takeMoves(), jobs: cache.takeDiskJobs(), peerJobs };
  }

  /**
   * Enqueues moves and jobs, before the step that needs them: those given, or all that there are.
   * Returns whether there were any. Throws a move's error, now and at every later call: blocks
   * differ from the bookkeeping, so that no step may run. Disk jobs still finish.
   */
  carryOut({ moves, jobs, peerJobs }: CacheMoves = this.takeMoves()): boolean {
    this.#mover.carryOut(moves, jobs, peerJobs);
    return moves.length + jobs.length + peerJobs.length > 0;
  }

  /**
   * Records disk jobs that ended in the bookkeeping, before a step is planned. Returns the keys of
   * loads that are complete.
   */
  takeFinishedLoads(): readonly number[] {
    for (const finished of this.#mover.takeFinishedPeers()) {
      const ended = this.cache.peers.finish(finished);
      if (ended !== null) this.#onReceived(ended);
    }
    const jobs = this.#mover.takeFinished();
    const loads = jobs.flatMap((job) => this.cache.finishDiskJob(job) ?? []);
    this.cache.writeHeads();
    return loads;
  }

  /** Moves since the start, pieces that other engines took, and those that came from them. */
  stats(): LevelMoverStats & { readonly sent: PiecesByWay; readonly fetched: FetchedPieces } {
    const sent = this.#peers?.sent() ?? NOTHING_SENT;
    return { ...this.#mover.stats(), sent, fetched: this.#peers?.fetched() ?? NOTHING_FETCHED };
  }

  /**
   * Writes full blocks that are not on disk there, for at most `shutdownFlushMs` (KV75 to KV79).
   * Null: that is 0, or there is no disk level. No step may run, before this or until `close`.
   */
  async flush(): Promise<FlushReport | null> {
    const { cache, bytesPerBlock } = this;
    const { settings, clock, timer } = this.#flush;
    if (settings.shutdownFlushMs === 0 || cache.poolStats(2).total === 0) return null;
    const carryOut = () => void this.carryOut();
    const parts = { cache, mover: this.#mover, bytesPerBlock, clock, timer, carryOut };
    return await flushToDisk(parts, settings.shutdownFlushMs);
  }

  /**
   * Finishes jobs under way and frees the memory; once `until` is aborted, queued disk jobs are
   * dropped. No step may run. Where the bookkeeping is inconsistent, or a move failed, this
   * rejects, when nothing uses the memory any more, and leaves it to the device.
   */
  async close(until?: AbortSignal): Promise<void> {
    try {
      this.carryOut();
      // Blocks for a restart may wait for host memory, which finished writes free.
      do {
        await this.#mover.idle(until);
        this.takeFinishedLoads();
      } while (until?.aborted !== true && this.carryOut());
    } finally {
      await this.#mover.drain(until);
    }
    this.#pulls?.close();
    this.#device.release(this.blocks);
    if (this.drafterBlocks !== null) this.#device.release(this.drafterBlocks);
    this.#shared?.conceal();
    for (const host of this.#hosts) this.#device.release(host);
    this.#shared?.release();
  }
}

/** Tells the link how other engines reach this one's device; null: they do not. */
function place(options: CacheMemoryOptions, pulls: DevicePulls | null) {
  const { device, peers, warn, sharesDevice = true } = options;
  if (peers == null || pulls === null || !sharesDevice) return null;
  peers.onForgotten((description) => pulls.forget(description));
  try {
    const { description, bytes } = pulls.describe();
    peers.place(description, bytes);
    return device.sharingScope;
  } catch (error) {
    warn(`Other engines get keys and values through host memory alone: ${messageOf(error)}`);
    return null;
  }
}

/** Bytes of a block in all its parts. */
function bytesOfBlock({ blocks, drafterBlocks }: Pick<OpenedParts, "blocks" | "drafterBlocks">) {
  return blocks.bytesPerBlock + (drafterBlocks?.bytesPerBlock ?? 0);
}

/** As many as requested; with a disk level alone, those that blocks pass through on their way. */
function hostBlocksFor(
  { hostCacheBytes }: EngineOptions["kvCache"],
  bytesPerBlock: number,
  hasDisk: boolean,
): number {
  const blocks = Math.floor(hostCacheBytes / bytesPerBlock);
  if (blocks > 0 || !hasDisk) return blocks;
  return Math.max(STAGING_BLOCKS_MIN, Math.floor(STAGING_BYTES / bytesPerBlock));
}

async function openStore(
  options: CacheMemoryOptions,
  { blocks, drafterBlocks, cost }: Omit<OpenedParts, "opened">,
): Promise<OpenedStore | null> {
  const { diskCacheBytes, diskCacheDir, prefixCaching } = options.settings;
  if (diskCacheBytes === 0 || diskCacheDir === null || !prefixCaching) return null;
  const bytesPerBlock = bytesOfBlock({ blocks, drafterBlocks });
  return await DiskStore.open({
    dir: diskCacheDir,
    fingerprint: await options.fingerprint(blocks.layout, drafterBlocks?.layout ?? null),
    hashRule: "sha256_cbor",
    bytesPerBlock,
    blockTokens: options.memory.blockTokens,
    capacityBlocks: Math.floor(diskCacheBytes / bytesPerBlock),
    clock: options.clock,
    timer: options.timer,
    warn: options.warn,
    onRead: (bytes, ms) => cost.recordRead(bytes, ms),
  });
}

/** Adds blocks of an earlier run to the bookkeeping; blocks that it does not take are removed. */
function restore(cache: KvCache, { store, survivors }: OpenedStore): void {
  const nodes = new Map<string, NodeId>();
  for (const { file } of survivors) {
    const parent = file.parentKey === null ? null : nodes.get(file.parentKey);
    const node = parent === undefined ? null : cache.restore(file, parent);
    if (node !== null) nodes.set(file.key, node);
    else void store.remove(file.key);
  }
}
