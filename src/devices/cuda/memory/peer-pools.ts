/**
 * Pools of other processes on this machine's GPUs, by CUDA's interprocess handles, and copies from
 * them: on a stream of their own, by the copy engines where blocks are large or lie side by side.
 */
import { readlinkSync } from "node:fs";
import { assert, EngineError, messageOf } from "#base";
import { type CudaDriver, CudaStream, type Gpu } from "#devices/cuda/driver";
import { type Kernel, Launcher, ROW_THREADS } from "#devices/cuda/kernels";
import { checkPairs } from "../../block-pairs.ts";
import type { MovesMark, PeerPool } from "../../device.ts";
import { runsOf } from "./block-runs.ts";
import type { CudaKvPool } from "./kv-pool.ts";
import { moveParams, movesMax, vectorBytes } from "./layer-moves.ts";
import { StreamsMark } from "./mark.ts";

/** `CU_IPC_HANDLE_SIZE`. */
const handleBytes = 64;

/** Access between GPUs is enabled where the memory is another GPU's. */
const lazyPeerAccess = 1;

/** From this size on a copy of its own is quicker than a share of a kernel's. */
const copyBytesMin = 1 << 24;

/** Blocks of threads in one launch: a peer's memory takes long to answer. */
const gridBlocks = 128;

const params = moveParams();

/** Memory of another process that is mapped here. */
export class CudaPeerPool implements PeerPool {
  readonly blocks: number;
  readonly bytesPerBlock: number;
  /** Where its first block is. */
  readonly address: bigint;
  /** What the driver mapped. */
  readonly mapping: bigint;

  constructor(shape: PeerPool, mapping: bigint, offset: bigint) {
    this.blocks = shape.blocks;
    this.bytesPerBlock = shape.bytesPerBlock;
    this.mapping = mapping;
    this.address = mapping + offset;
  }
}

/** What a process says of its pool. */
interface Description {
  /** The driver maps no memory of the process itself. */
  readonly process: string;
  readonly handle: string;
  /** Of the pool in the memory that the handle stands for. */
  readonly offset: number;
  readonly blocks: number;
  readonly layout: string;
}

export interface PeerPoolsOptions {
  readonly driver: CudaDriver;
  readonly gpu: Gpu;
  /** `move_layers`. */
  readonly kernel: Kernel;
}

/** Describes this process's pools, maps others, and copies from them. */
export class PeerPools {
  readonly #options: PeerPoolsOptions;
  readonly #stream: CudaStream;
  readonly #launcher: Launcher;
  readonly #open = new Set<CudaPeerPool>();

  constructor(options: PeerPoolsOptions) {
    this.#options = options;
    this.#stream = new CudaStream(options.driver);
    this.#launcher = new Launcher(options.driver, this.#stream, options.gpu);
  }

  describe({ address, blocks, layout }: CudaKvPool): string {
    const { driver } = this.#options;
    const handle = Buffer.alloc(handleBytes);
    driver.run("cuIpcGetMemHandle", handle, address);
    const base = new BigUint64Array(1);
    driver.run("cuMemGetAddressRange", base, new BigUint64Array(1), address);
    const offset = Number(address - (base[0] ?? address));
    const place = { handle: handle.toString("base64"), offset };
    return JSON.stringify({
      process: ownProcess(),
      ...place,
      blocks,
      layout,
    } satisfies Description);
  }

  /** Throws as `Device.openPeerPool` does. */
  open(text: string, like: CudaKvPool): CudaPeerPool {
    const { driver } = this.#options;
    const { process: owner, handle, offset, blocks, layout } = parse(text);
    if (layout !== like.layout) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot reach another engine's pool: its layout must be ${like.layout}, current value ` +
          `is ${layout}; serve the same model with the same settings on both`,
      );
    }
    if (owner === ownProcess()) {
      throw new EngineError(
        "DEVICE_UNAVAILABLE",
        "Cannot reach another engine's pool by CUDA: the engines must be in processes of their " +
          "own, both are in this one",
      );
    }
    const out = new BigUint64Array(1);
    try {
      // The handle is a struct that is passed by value.
      const reserved = Uint8Array.from(Buffer.from(handle, "base64"));
      driver.run("cuIpcOpenMemHandle", out, { reserved }, lazyPeerAccess);
    } catch (error) {
      throw new EngineError(
        "DEVICE_UNAVAILABLE",
        `Cannot reach another engine's pool by CUDA: ${messageOf(error)}; both GPUs must be ` +
          "visible to both processes, and reach each other",
        { cause: error },
      );
    }
    const mapping = out[0] ?? 0n;
    const pool = new CudaPeerPool(
      { blocks, bytesPerBlock: like.bytesPerBlock },
      mapping,
      BigInt(offset),
    );
    this.#open.add(pool);
    const size = new BigUint64Array(1);
    driver.run("cuMemGetAddressRange", new BigUint64Array(1), size, mapping);
    if (BigInt(offset) + BigInt(blocks) * BigInt(like.bytesPerBlock) <= (size[0] ?? 0n)) {
      return pool;
    }
    this.close(pool);
    throw unreadable("it is larger than its memory");
  }

  /** Copies blocks, all layers of each. The mark is of this process's pulls alone. */
  pull(cache: CudaKvPool, peer: CudaPeerPool, pairs: Int32Array): MovesMark {
    assert(this.#open.has(peer), "Cannot pull from a pool that was closed");
    checkPairs(pairs, { from: peer.blocks, to: cache.blocks });
    const scattered: number[] = [];
    for (const { from, to, count } of runsOf(pairs)) {
      const bytes = count * cache.bytesPerBlock;
      if (bytes >= copyBytesMin) this.#copy(cache, peer, { from, to, bytes });
      else for (let i = 0; i < count; i++) scattered.push(from + i, to + i);
    }
    for (let start = 0; start < scattered.length; start += 2 * movesMax) {
      this.#launch(cache, peer, scattered.slice(start, start + 2 * movesMax));
    }
    return new StreamsMark(this.#options.driver, [this.#stream]);
  }

  close(peer: CudaPeerPool): void {
    if (!this.#open.delete(peer)) return;
    this.#stream.synchronize();
    this.#options.driver.run("cuIpcCloseMemHandle", peer.mapping);
  }

  dispose(): void {
    for (const peer of this.#open) this.close(peer);
    this.#stream.destroy();
  }

  #copy(
    cache: CudaKvPool,
    peer: CudaPeerPool,
    { from, to, bytes }: { from: number; to: number; bytes: number },
  ): void {
    const size = BigInt(cache.bytesPerBlock);
    const source = peer.address + BigInt(from) * size;
    const target = cache.address + BigInt(to) * size;
    this.#options.driver.run("cuMemcpyDtoDAsync", target, source, bytes, this.#stream.handle);
  }

  #launch(cache: CudaKvPool, peer: CudaPeerPool, pairs: readonly number[]): void {
    const count = pairs.length / 2;
    const vectors = cache.bytesPerBlock / vectorBytes;
    params.fill(cache.address, peer.address, cache.bytesPerBlock, 0, vectors, count);
    params.tail.set(pairs);
    const grid = [Math.min(gridBlocks, Math.ceil((vectors * count) / ROW_THREADS))] as const;
    this.#launcher.launch(this.#options.kernel, { grid, threads: ROW_THREADS }, params);
  }
}

function parse(text: string): Description {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw unreadable("it is not JSON");
  }
  if (typeof value !== "object" || value === null) throw unreadable("it is no object");
  const get = (field: keyof Description): unknown => Reflect.get(value, field);
  const [owner, handle, layout] = [get("process"), get("handle"), get("layout")];
  const [offset, blocks] = [get("offset"), get("blocks")];
  const isText = typeof handle === "string" && typeof layout === "string";
  if (
    !isText ||
    typeof owner !== "string" ||
    Buffer.from(handle, "base64").length !== handleBytes
  ) {
    throw unreadable("it has no handle");
  }
  const isCount = (count: unknown, least: number): count is number =>
    typeof count === "number" && Number.isSafeInteger(count) && count >= least;
  if (!isCount(offset, 0) || !isCount(blocks, 1) || offset % vectorBytes !== 0) {
    throw unreadable("its numbers are wrong");
  }
  return { process: owner, handle, offset, blocks, layout };
}

/** Of all threads of this process, and of no other on this machine. */
function ownProcess(): string {
  try {
    return `${readlinkSync("/proc/self/ns/pid")} ${process.pid}`;
  } catch {
    return `${process.pid}`; // Not Linux: there are no interprocess handles either.
  }
}

function unreadable(why: string): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot reach another engine's pool: its description is unreadable, ${why}`,
  );
}
