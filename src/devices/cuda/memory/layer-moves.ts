/**
 * Moves of blocks between device and host memory, concurrent with the ops: a stream per direction,
 * ordered against the ops layer by layer.
 *
 *   a move    sees all ops that were enqueued before it, and all moves
 *   an op     that touches a layer sees the moves of that layer that were enqueued before it
 *
 * Offloads beside the ops are the exception: they are in order with moves alone.
 *
 * So a step's first layers are computed while later ones are still being copied.
 */

import { type CudaDriver, CudaEvent, CudaStream, type Gpu } from "#devices/cuda/driver";
import { type Kernel, KernelParams, Launcher, ROW_THREADS } from "#devices/cuda/kernels";
import { at } from "#tensor";
import { checkPairs } from "../../block-pairs.ts";
import type { MovesMark } from "../../device.ts";
import { runsOf } from "./block-runs.ts";
import type { CudaHostBlocks } from "./host-blocks.ts";
import type { CudaKvPool } from "./kv-pool.ts";
import { StreamsMark } from "./mark.ts";

/** `kMovesMax` of native/cuda/move-layers.cu. */
export const movesMax = 240;

/** Blocks of threads in one launch, which have 256 KiB in flight. */
const gridBlocks = 16;

/** Bytes that a thread moves at once. */
export const vectorBytes = 16;

/**
 * Layers are moved together up to this size: for less, a launch and an event cost more than they
 * gain.
 */
const chunkBytesMin = 1 << 20;

/**
 * From this size on blocks beside the ops that lie side by side are copied by the copy engines: a
 * call for each, and no thread of the GPU.
 */
const engineBytesMin = 1 << 18;

/** Blocks of the moves are scheduled before the ops' waiting blocks. */
const priority = -1;

/** `MoveLayersParams`, with its pairs behind them. */
export function moveParams(): KernelParams {
  return new KernelParams(["pointer", "pointer", "i64", "i64", "i32", "i32"], 2 * movesMax);
}

const params = moveParams();

/** Direction of a move: to host memory, or to the device. */
export type Direction = "offload" | "onboard";

/** Options of `LayerMoves`. */
export interface LayerMovesOptions {
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  /** The ops' stream. */
  readonly stream: CudaStream;
  /** `move_layers`. */
  readonly kernel: Kernel;
}

/** Memory that blocks move between. */
export interface MoveEnds {
  readonly cache: CudaKvPool;
  readonly host: CudaHostBlocks;
}

/** Enqueues moves, and makes the ops wait for them where they must. */
export class LayerMoves {
  readonly #driver: CudaDriver;
  readonly #stream: CudaStream;
  readonly #kernel: Kernel;
  readonly #launchers: Readonly<Record<Direction, Launcher>>;
  /** Offloads that the ops do not wait for. */
  readonly #beside: Launcher;
  /** Recorded behind what a move depends on. */
  readonly #enqueued: CudaEvent;
  readonly #traffic = new Map<CudaKvPool, LayerTraffic>();

  constructor({ driver, gpu, stream, kernel }: LayerMovesOptions) {
    this.#driver = driver;
    this.#stream = stream;
    this.#kernel = kernel;
    this.#launchers = {
      offload: new Launcher(driver, new CudaStream(driver, priority), gpu),
      onboard: new Launcher(driver, new CudaStream(driver, priority), gpu),
    };
    this.#beside = new Launcher(driver, new CudaStream(driver), gpu);
    this.#enqueued = new CudaEvent(driver);
  }

  /** Moves the blocks of a list [n, 2] (from, to), all layers of each. */
  enqueue(direction: Direction, { cache, host }: MoveEnds, pairs: Int32Array): void {
    const offloads = direction === "offload";
    const [from, to] = offloads ? [cache, host] : [host, cache];
    checkPairs(pairs, { from: from.blocks, to: to.blocks });
    if (pairs.length === 0) return;
    const traffic = this.#trafficOf(cache);
    const launcher = this.#launchers[direction];
    this.#waitFor(launcher.stream, this.#stream);
    for (const [first, end] of chunksOf(cache, pairs.length / 2)) {
      // A move in the other direction may still read or write the same blocks.
      traffic.waitFor(launcher.stream, offloads ? "onboard" : "offload", first, end);
      this.#launch(launcher, { from, to, cache, first, end }, pairs);
      traffic.record(launcher.stream, direction, first, end);
    }
  }

  /** As `Device.offloadBeside`. */
  offloadBeside({ cache, host }: MoveEnds, pairs: Int32Array): MovesMark {
    checkPairs(pairs, { from: cache.blocks, to: host.blocks });
    const { stream } = this.#beside;
    for (const other of this.streams) this.#waitFor(stream, other);
    const { bytesPerBlock, layers } = cache;
    const scattered: number[] = [];
    for (const { from, to, count } of runsOf(pairs)) {
      const bytes = count * bytesPerBlock;
      if (bytes >= engineBytesMin) {
        const source = cache.address + BigInt(from) * BigInt(bytesPerBlock);
        const target = host.blockAddress(to);
        this.#driver.run("cuMemcpyDtoHAsync", target, source, bytes, stream.handle);
      } else for (let i = 0; i < count; i++) scattered.push(from + i, to + i);
    }
    const ends = { from: cache, to: host, cache, first: 0, end: layers };
    if (scattered.length > 0) this.#launch(this.#beside, ends, Int32Array.from(scattered));
    // So marks of the moves are behind it, too.
    for (const other of this.streams) this.#waitFor(other, stream);
    return new StreamsMark(this.#driver, [stream]);
  }

  /** Work enqueued on the ops' stream from now on waits for the moves of one layer. */
  settleLayer(cache: CudaKvPool, layer: number): void {
    this.#traffic.get(cache)?.settle(this.#stream, layer, layer + 1);
  }

  /** The same for all layers: of one cache, or of all. */
  settle(cache?: CudaKvPool): void {
    for (const [each, traffic] of this.#traffic) {
      if (cache === undefined || each === cache) traffic.settle(this.#stream, 0, each.layers);
    }
  }

  /** Work enqueued on the ops' stream from now on waits for all moves, also those beside it. */
  settleAll(): void {
    this.settle();
    this.#waitFor(this.#stream, this.#beside.stream);
  }

  /** Those of moves. Offloads beside the ops have another, which these wait for. */
  get streams(): readonly CudaStream[] {
    return Object.values(this.#launchers).map(({ stream }) => stream);
  }

  /** A mark behind the moves so far; unlike a stream's it does not wait for ops enqueued later. */
  mark(): MovesMark {
    return new StreamsMark(this.#driver, this.streams);
  }

  /** Removes the records of a cache that is released. */
  forget(cache: CudaKvPool): void {
    this.settleAll();
    this.#traffic.get(cache)?.destroy();
    this.#traffic.delete(cache);
  }

  dispose(): void {
    for (const cache of this.#traffic.keys()) this.forget(cache);
    this.#enqueued.destroy();
    for (const stream of [...this.streams, this.#beside.stream]) stream.destroy();
  }

  /** Work enqueued on `stream` from now on waits for all that is on `other`. */
  #waitFor(stream: CudaStream, other: CudaStream): void {
    this.#enqueued.record(other);
    stream.waitFor(this.#enqueued);
  }

  #launch(launcher: Launcher, { from, to, cache, first, end }: Chunk, pairs: Int32Array): void {
    const { bytesPerBlock } = cache;
    const layerBytes = bytesPerBlock / cache.layers;
    const vectors = ((end - first) * layerBytes) / vectorBytes;
    for (const part of targetsApart(pairs, movesMax)) {
      const count = part.end - part.start;
      const offset = first * layerBytes;
      params.fill(to.address, from.address, bytesPerBlock, offset, vectors, count);
      params.tail.set(pairs.subarray(2 * part.start, 2 * part.end));
      const wanted = Math.ceil((vectors * count) / ROW_THREADS);
      const grid = [Math.min(gridBlocks, wanted)] as const;
      launcher.launch(this.#kernel, { grid, threads: ROW_THREADS }, params);
    }
  }

  #trafficOf(cache: CudaKvPool): LayerTraffic {
    const known = this.#traffic.get(cache);
    if (known !== undefined) return known;
    const traffic = new LayerTraffic(this.#driver, cache.layers);
    this.#traffic.set(cache, traffic);
    return traffic;
  }
}

/** Layers [first, end) of blocks, and their offset in a block. */
interface Chunk {
  readonly from: { readonly address: bigint };
  readonly to: { readonly address: bigint };
  readonly cache: CudaKvPool;
  readonly first: number;
  readonly end: number;
}

/** Layers [first, end) that are moved together, for this many blocks. */
function chunksOf(cache: CudaKvPool, blocks: number): (readonly [number, number])[] {
  const { layers, bytesPerBlock } = cache;
  const chunks = Math.ceil((bytesPerBlock * blocks) / chunkBytesMin);
  const width = Math.ceil(layers / Math.min(chunks, layers));
  return Array.from({ length: Math.ceil(layers / width) }, (_, index) => {
    const first = index * width;
    return [first, Math.min(first + width, layers)] as const;
  });
}

/**
 * Cuts a list [n, 2] of moves into parts of at most `countMax`, none of which has two moves to one
 * target. Yields [start, end) in pairs.
 */
function* targetsApart(
  pairs: Int32Array,
  countMax: number,
): Generator<{ readonly start: number; readonly end: number }> {
  const targets = new Set<number>();
  let start = 0;
  for (let i = 0; i < pairs.length / 2; i++) {
    const target = at(pairs, 2 * i + 1);
    if (targets.has(target) || i - start === countMax) {
      yield { start, end: i };
      start = i;
      targets.clear();
    }
    targets.add(target);
  }
  yield { start, end: pairs.length / 2 };
}

/** Pending moves to and from one cache, by layer. */
class LayerTraffic {
  /** An event per layer, recorded behind the layers from there on that are moved together. */
  readonly #events: Readonly<Record<Direction, readonly CudaEvent[]>>;
  /** The last move of each layer that the ops do not wait for yet. */
  readonly #pending: Readonly<Record<Direction, (CudaEvent | null)[]>>;
  #count = 0;

  constructor(driver: CudaDriver, layers: number) {
    const events = () => Array.from({ length: layers }, () => new CudaEvent(driver));
    const nothing = () => Array.from({ length: layers }, () => null);
    this.#events = { offload: events(), onboard: events() };
    this.#pending = { offload: nothing(), onboard: nothing() };
  }

  /** Layers [first, end) are moved when all current work of `stream` is done. */
  record(stream: CudaStream, direction: Direction, first: number, end: number): void {
    const event = this.#events[direction][first];
    event?.record(stream);
    const pending = this.#pending[direction];
    for (let layer = first; layer < end; layer++) pending[layer] = event ?? null;
    this.#count++;
  }

  /** `stream` waits for the moves of these layers in one direction. */
  waitFor(stream: CudaStream, direction: Direction, first: number, end: number): void {
    const events = new Set(this.#pending[direction].slice(first, end));
    for (const event of events) if (event !== null) stream.waitFor(event);
  }

  /** `stream`, the ops', waits for the moves of layers [first, end) in both directions. */
  settle(stream: CudaStream, first: number, end: number): void {
    if (this.#count === 0) return;
    for (const direction of ["offload", "onboard"] as const) {
      this.waitFor(stream, direction, first, end);
      this.#pending[direction].fill(null, first, end);
    }
    const all = [...this.#pending.offload, ...this.#pending.onboard];
    if (all.every((event) => event === null)) this.#count = 0;
  }

  destroy(): void {
    for (const events of Object.values(this.#events)) for (const event of events) event.destroy();
  }
}
