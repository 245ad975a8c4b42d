import type { Seed } from "#base";
import type { BlockType, DType, Shape } from "#tensor";
import type {
  Activation,
  DeviceTensor,
  KvPool,
  WeightFormat,
  WeightMatrix,
} from "./device-data.ts";
import type { DeviceOps } from "./ops.ts";

/** Kinds of device; `describeDevices` reports which of them run here. */
export type DeviceKind = "reference" | "cpu" | "cuda";

/**
 * One matrix of a file, row-major [rows, columns]. `bytes` may be a view of mapped memory: a
 * device copies what it needs before it returns and keeps no reference.
 */
export interface WeightSource {
  readonly name: string;
  readonly dtype: "f32" | "f16" | "bf16";
  readonly shape: Shape;
  /** Definition of `bytes` where no file has them: a device may generate the same bytes itself. */
  readonly random?: RandomElements;
  /** The file that has `bytes`, from byte `start` on: a device may read it itself. */
  readonly file?: { readonly path: string; readonly start: number };
  /** The blocks that the file has, which `bytes` dequantises. */
  readonly packed?: PackedBlocks | undefined;
  /** Little-endian elements. Made on call: a file's pages are touched one tensor at a time. */
  bytes(): Uint8Array;
  /** Advises the system that the file's pages will not be read again soon. */
  discard(): void;
}

/** A matrix as quantised blocks, row behind row. */
export interface PackedBlocks {
  readonly type: BlockType;
  /** Read-only; made on call, as `WeightSource.bytes`. */
  blocks(): Uint8Array;
}

/**
 * Elements evenly spread over [-range, range), in bf16: `reference/random-weights.ts` has the
 * definition. `range` is exact in f32.
 */
export interface RandomElements {
  readonly seed: Seed;
  readonly range: number;
}

/** Packing of a file's matrix. */
export interface PackOptions {
  readonly format: WeightFormat;
  /** The source is [K, N] (GPT-2's Conv1D). */
  readonly transposed?: boolean;
}

/** Options of a KV pool; the device decides the number of bytes and the layout. */
export interface KvPoolOptions extends Omit<KvPool, "bytesPerBlock" | "layout"> {
  /** `i8` and `fp8` only. Absent: every token's vectors have scales of their own. */
  readonly scales?: KvScales;
}

/**
 * Calibrated scales of all keys and of all values of a layer, positive: stored is
 * saturate(round(x / scale)). One per layer of the model, which are more than those of a block
 * where layers are in several groups.
 */
export interface KvScales {
  readonly key: Float32Array;
  readonly value: Float32Array;
}

/** One block of a cache, before the number of blocks is known. */
export type KvBlockOptions = Omit<KvPoolOptions, "blocks">;

/**
 * Blocks of one cache in host memory, in the kind that a device reaches fastest (pinned, for cuda).
 * Contents of a block are undefined until written.
 */
export interface HostBlocks {
  readonly blocks: number;
  readonly bytesPerBlock: number;
}

/** Address of so many bytes, which stay until the blocks were released; null: there are none. */
export type HostAllocator = (bytes: number) => bigint | null;

/** Blocks of another engine's pool, which this device can read. */
export interface PeerPool {
  readonly blocks: number;
  readonly bytesPerBlock: number;
}

/** Which way tensors go by slots: out of the device, or into it. */
export type SlotDirection = "out" | "in";

/**
 * Slots of host memory that another process maps, too: a tensor passes from its device to another
 * one in them.
 */
export interface HostSlots {
  readonly direction: SlotDirection;
  readonly slots: number;
  readonly bytesPerSlot: number;
}

/** A pending copy to the host. */
export interface LateRead {
  /** Waits for the copy, and for nothing that was enqueued behind it. To be called once. */
  take(): Promise<Int32Array>;
}

/** Properties of a step of one token per sequence that decide how it is run. */
export interface DecodeShape {
  readonly sequences: number;
  /** Tokens of the longest context. */
  readonly contextTokens: number;
  /** Most tokens that a context may have. */
  readonly contextTokensMax: number;
  readonly cache: KvPool;
  /** Format of attention's output. */
  readonly format: WeightFormat;
  /** `AttentionBatch.rowsApart`. Default: false. */
  readonly rowsApart?: boolean;
}

/** Every kind of handle that `Device.release` accepts. */
export type DeviceMemoryHandle =
  | DeviceTensor
  | Activation
  | WeightMatrix
  | KvPool
  | HostBlocks
  | HostSlots
  | PeerPool;

/** Memory that a device's tensors share with all other uses of it. */
export interface DeviceMemory {
  readonly totalBytes: number;
  readonly availableBytes: number;
}

/** A point in the order of moves of blocks. */
export interface MovesMark {
  /**
   * Whether all moves before it are done. Never waits; throws the errors that `synchronize` would.
   */
  isDone(): boolean;
}

/**
 * A place where tensors live and ops run. Ops are enqueued in call order; a device may run them at
 * once (cpu) or later (cuda): only reads and `synchronize` wait. All memory of a step is allocated
 * before the first step; nothing is allocated on the step path.
 *
 * All inputs of a step are in device tensors of fixed shape, written by `write`, so that a step can
 * be captured once per batch size and launched as a graph, and the next one can be staged while
 * this one runs.
 */
export interface Device extends DeviceOps {
  readonly kind: DeviceKind;
  /** One line for messages: chip, instruction set or compute capability, threads. */
  readonly description: string;
  /**
   * Identifies how this device rounds: equal texts mean that equal steps give equal bits. Its kind
   * and its instruction set or chip, but nothing that affects speed alone.
   */
  readonly arithmetic: string;
  /** Formats that this device can keep weights in, best first. */
  readonly weightFormats: readonly WeightFormat[];
  /**
   * A chip beside the CPU, e.g. a GPU: its memory is separate and used for nothing else, and 16-bit
   * weights are many times as fast as f32.
   */
  readonly accelerator: boolean;
  /** Ops run after their calls return: the host gains time by working meanwhile. */
  readonly runsLater: boolean;
  /** `replay` keeps captured steps and `paddedBatch` pads: some steps are worth capturing ahead. */
  readonly replays: boolean;
  /**
   * Ops depend on lengths of contexts and queries only by what is in tensors: `replay` may be used
   * for steps of any sequences, by numbers of rows alone.
   */
  readonly replaysByShape: boolean;

  /** Zero-filled. Throws OUT_OF_MEMORY. */
  allocate(dtype: DType, shape: Shape): DeviceTensor;
  allocateActivation(format: WeightFormat, rows: number, columns: number): Activation;
  allocateKvPool(options: KvPoolOptions): KvPool;
  /** Bytes of one block, so that a pool can be planned before it is allocated. */
  kvBytesPerBlock(options: KvBlockOptions): number;
  /**
   * Allocates `blocks` blocks of `cache` in host memory: by `allocate` where the device can use any
   * memory, and where there is some. Throws OUT_OF_MEMORY.
   */
  allocateHostBlocks(cache: KvPool, blocks: number, allocate?: HostAllocator): HostBlocks;

  /** Leading rows `start` up to `end`; shares memory with `tensor` and must not be released. */
  rows(tensor: DeviceTensor, start: number, end: number): DeviceTensor;
  /** The same for activations. */
  activationRows(activation: Activation, start: number, end: number): Activation;

  /** Packs matrices stacked by rows (q, k, v become one). Columns must agree. */
  pack(sources: readonly WeightSource[], options: PackOptions): WeightMatrix;
  /** Any source as an f32 tensor of its own shape: norms, biases, tables of positions. */
  load(source: WeightSource): DeviceTensor;

  /** Host to device, from element `offset` on. `data` may be reused when this returns. */
  write(tensor: DeviceTensor, data: Float32Array | Int32Array | Uint32Array, offset?: number): void;
  /** Device to host, after everything enqueued before. The copy belongs to the caller. */
  readF32(tensor: DeviceTensor | Activation): Promise<Float32Array>;
  readI32(tensor: DeviceTensor): Promise<Int32Array>;
  /**
   * The same in two parts, of i32 or the bits of f32: enqueues the copy now, so that more work can
   * be enqueued behind it.
   */
  readLater(tensor: DeviceTensor): LateRead;

  /**
   * Calls `enqueue`, or repeats the work it enqueued when it was called under the same `key`. So
   * calls with one key must enqueue the same ops on the same memory: their differences are in
   * tensors, written before. `enqueue` may not write, read, wait, allocate or replay; it is called
   * twice at first where the device keeps steps, and every time where that fails.
   */
  replay(key: string, enqueue: () => void): void;
  /**
   * Batch size that a decode step of `count` sequences should be padded to, at most `countMax`, so
   * that few shapes of steps are kept; `count` where none is kept.
   */
  paddedBatch(count: number, countMax: number): number;
  /** Context length that a decode step should be padded to, for the same purpose. */
  paddedContext(shape: DecodeShape): number;
  /**
   * Copies blocks inside a cache: all layers, keys, values and scales. `pairs` [n, 2]: from, to.
   * Enqueued like ops; the pairs in their order, so that one may read a block that another wrote.
   * `pairs` may be reused when this returns. The same holds for the three methods below.
   */
  copyBlocks(cache: KvPool, pairs: Int32Array): void;
  /** Blocks of the cache to blocks of the host, byte for byte. */
  offloadBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void;
  /** Blocks of the host to blocks of the cache. */
  onboardBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void;
  /**
   * As `offloadBlocks`, but ops do not wait for it, and it does not wait for them: ops that were
   * enqueued must be done with these blocks of the cache, and none that uses them may be enqueued
   * until the returned mark is done. It is in order with other moves, and marks are behind it.
   */
  offloadBeside(cache: KvPool, host: HostBlocks, pairs: Int32Array): MovesMark;
  /**
   * The bytes of one host block, to be read or written, e.g. by files. Enqueued moves are visible
   * only after `synchronize`, or when a mark behind them is done. A view: it must not be used after
   * `host` was released.
   */
  hostBlock(host: HostBlocks, index: number): Uint8Array;
  /** A mark behind all offloads and onboards so far, to be polled until it is done. */
  markMoves(): MovesMark;

  /** A mark behind all ops and moves so far, for what uses their blocks in other ways. */
  markOps(): MovesMark;

  /** Devices whose pools may reach each other have the same; where it differs they cannot. */
  readonly sharingScope: string;
  /**
   * Describes a pool to devices of the same scope. Who has the description can read and write all
   * of the pool. Throws where the system refuses.
   */
  describePool(cache: KvPool): string;
  /**
   * Reaches a pool of another engine, which has the layout of `like`, until it is released. Throws
   * INVALID_ARGUMENT for what is no description of such a pool, DEVICE_UNAVAILABLE where it cannot
   * be reached from here.
   */
  openPeerPool(description: string, like: KvPool): PeerPool;
  /**
   * Copies blocks of another engine's pool into blocks of the cache, `pairs` [n, 2], whose contents
   * are undefined until the returned mark is done. Unlike other moves it is not ordered against
   * ops: nothing enqueued may use the blocks of either side.
   */
  pullBlocks(cache: KvPool, peer: PeerPool, pairs: Int32Array): MovesMark;

  /**
   * Makes slots of memory, one each, all of one size. The memory stays until they were released. A
   * device with memory of its own allocates room for two of them. Throws OUT_OF_MEMORY.
   */
  openHostSlots(memory: readonly Uint8Array[], direction: SlotDirection): HostSlots;
  /**
   * Enqueues a copy of a tensor to the beginning of a slot, behind the ops so far, and beside those
   * that follow, which may change the tensor. Nothing may look at the slot until the mark is done.
   */
  putTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark;
  /**
   * Enqueues a copy from the beginning of a slot to a tensor, which ops that follow see. The way to
   * the device is beside the ops so far. The slot must not change until the mark is done.
   */
  takeTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark;

  /** Waits for everything enqueued. Errors of ops surface here at the latest. */
  synchronize(): Promise<void>;

  release(memory: DeviceMemoryHandle): void;
  memory(): DeviceMemory;
  /**
   * Declares that steps begin. A device with memory of its own warns of every allocation from now
   * on: it stops the device, and the memory may not suffice.
   */
  seal(): void;
  /** Releases everything. The device is unusable afterwards. */
  dispose(): void;
}
