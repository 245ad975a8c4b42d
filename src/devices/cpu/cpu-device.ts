import { assert } from "#base";
import { bitsOf, bytesOf, type DType, elementCount, formatShape, type Shape } from "#tensor";
import type {
  DecodeShape,
  Device,
  DeviceMemory,
  DeviceMemoryHandle,
  HostAllocator,
  HostBlocks,
  HostSlots,
  KvBlockOptions,
  KvPoolOptions,
  LateRead,
  MovesMark,
  PackOptions,
  PeerPool,
  SlotDirection,
  WeightSource,
} from "../device.ts";
import type {
  Activation,
  DeviceTensor,
  KvPool,
  WeightFormat,
  WeightMatrix,
} from "../device-data.ts";
import { MappedSlots, mappedSlots } from "../host-slots.ts";
import {
  describeLocalPool,
  forgetLocalPool,
  LocalPeerPool,
  openLocalPool,
  THREAD_SCOPE,
} from "../local-pools.ts";
import { checkedBytes } from "../weight-source.ts";
import { CpuOps } from "./cpu-ops.ts";
import {
  activationOf,
  CpuActivation,
  CpuMatrix,
  CpuTensor,
  elementCode,
  formatCode,
  tensorOf,
} from "./handles.ts";
import { CpuHostBlocks, hostBlocksOf } from "./host-blocks.ts";
import { type Isa, processorName } from "./isa.ts";
import { CpuKvPool, kvBytesPerBlock, kvPoolOf } from "./kv-pool.ts";
import { type CpuLibrary, loadLibrary } from "./library.ts";
import { availableMemory, CpuMemory } from "./memory.ts";
import { type BlockMemory, moveBlocks } from "./move-blocks.ts";
import { packMatrix } from "./pack.ts";
import { Params } from "./params.ts";
import { Replays } from "./replays.ts";

export interface CpuDeviceOptions {
  /** Instruction set of the library; the processor's best by default. */
  readonly isa?: Isa;
  /** Threads that run an op, the calling one included; one per physical core by default. */
  readonly threads?: number;
  /** Processes that share the cores; 1 by default. */
  readonly sharedBy?: number;
  /**
   * Binds every worker to a core of its own. Default: on when there are as many threads as cores;
   * with fewer, the system's scheduler chooses free cores better. Turn it off where other processes
   * use the same cores: a bound worker cannot move away from them.
   */
  readonly pin?: boolean;
}

/**
 * The CPU: C++ kernels through FFI. Ops run at once, on the calling thread and its pool, so
 * `readF32`, `readI32` and `synchronize` never wait.
 */
export class CpuDevice extends CpuOps implements Device {
  readonly kind = "cpu";
  readonly description: string;
  readonly arithmetic: string;
  /** i8 first: a step is bound by memory bandwidth, and i8 weights are the fewest bytes. */
  readonly weightFormats: readonly WeightFormat[] = ["q8", "i8", "bf16", "f32"];
  readonly accelerator = false;
  readonly runsLater = false;
  readonly replays = false;
  readonly replaysByShape = true;

  readonly #library: CpuLibrary;
  readonly #memory: CpuMemory;
  readonly #pool: bigint;
  readonly #replays: Replays;
  #disposed = false;

  private constructor(library: CpuLibrary, threads: number, pin: boolean) {
    const pool = library.createPool(threads, pin ? 1 : 0);
    const replays = new Replays(library);
    super({ kernels: replays.kernels, pool });
    this.#replays = replays;
    this.#library = library;
    this.#memory = new CpuMemory(library);
    this.#pool = pool;
    // No sum is split over threads, so the number of threads does not change results.
    this.arithmetic = `cpu ${library.isa}`;
    const plural = threads === 1 ? "" : "s";
    this.description = `cpu: ${processorName()}, ${library.isa}, ${threads} thread${plural}`;
  }

  /** Throws DEVICE_UNAVAILABLE when the library is missing or the processor lacks `isa`. */
  static open(options: CpuDeviceOptions = {}): CpuDevice {
    const library = loadLibrary(options.isa);
    const { sharedBy = 1 } = options;
    const share = Math.max(1, Math.floor(library.coreCount() / sharedBy));
    const threads = options.threads ?? share;
    assert(Number.isInteger(threads) && threads > 0, `Cannot run ${threads} threads`);
    const pins = sharedBy === 1 && threads === library.coreCount();
    return new CpuDevice(library, threads, options.pin ?? pins);
  }

  allocate(dtype: DType, shape: Shape): DeviceTensor {
    const bytes = elementCount(shape) * bytesOf(dtype);
    const address = this.#memory.allocate(bytes, `a tensor ${formatShape(shape)} of ${dtype}`);
    return new CpuTensor(dtype, shape, address);
  }

  allocateActivation(format: WeightFormat, rows: number, columns: number): Activation {
    const rowBytes = this.#library.activationRowBytes(formatCode(format), columns);
    const what = `activations ${formatShape([rows, columns])} of ${format}`;
    const address = this.#memory.allocate(rows * rowBytes, what);
    return new CpuActivation(format, rows, columns, address, rowBytes);
  }

  allocateKvPool(options: KvPoolOptions): KvPool {
    const bytes = options.blocks * kvBytesPerBlock(options);
    return new CpuKvPool(options, this.#memory.allocate(bytes, `${options.blocks} KV blocks`));
  }

  kvBytesPerBlock(options: KvBlockOptions): number {
    return kvBytesPerBlock(options);
  }

  allocateHostBlocks(cache: KvPool, blocks: number, allocate?: HostAllocator): HostBlocks {
    const { bytesPerBlock } = kvPoolOf(cache);
    const bytes = blocks * bytesPerBlock;
    const given = allocate?.(bytes) ?? null;
    const address = given ?? this.#memory.allocate(bytes, `${blocks} host blocks`);
    return new CpuHostBlocks(blocks, bytesPerBlock, { address, isOwn: given === null });
  }

  rows(tensor: DeviceTensor, start: number, end: number): DeviceTensor {
    return cpuTensor(tensor).slice(start, end);
  }

  activationRows(activation: Activation, start: number, end: number): Activation {
    return activationOf(activation, end, activation.columns).slice(start, end);
  }

  pack(sources: readonly WeightSource[], options: PackOptions): WeightMatrix {
    return packMatrix(
      { library: this.#library, memory: this.#memory, pool: this.#pool },
      sources,
      options,
    );
  }

  load(source: WeightSource): DeviceTensor {
    const count = elementCount(source.shape);
    const address = this.#memory.allocate(count * 4, `${source.name} as f32`);
    this.#library.widen(address, checkedBytes(source), elementCode(source.dtype), count);
    source.discard();
    return new CpuTensor("f32", source.shape, address);
  }

  write(tensor: DeviceTensor, data: Float32Array | Int32Array | Uint32Array, offset = 0): void {
    const target = cpuTensor(tensor);
    assert(
      target.dtype === dtypeOf(data) && offset + data.length <= target.rows * target.columns,
      `Cannot write ${data.length} elements at ${offset} of ${target.dtype} ` +
        formatShape(target.shape),
    );
    this.#library.copy(target.address + BigInt(offset * 4), data, data.byteLength);
  }

  async readF32(source: DeviceTensor | Activation): Promise<Float32Array> {
    if (!("dtype" in source)) return this.#readActivation(source);
    const tensor = tensorOf(source, "f32", 0, cpuTensor(source).columns);
    const out = new Float32Array(tensor.rows * tensor.columns);
    this.#library.copy(out, tensor.address, out.byteLength);
    return out;
  }

  async readI32(source: DeviceTensor): Promise<Int32Array> {
    const tensor = tensorOf(source, "i32", 0, cpuTensor(source).columns);
    const out = new Int32Array(tensor.rows * tensor.columns);
    this.#library.copy(out, tensor.address, out.byteLength);
    return out;
  }

  readLater(tensor: DeviceTensor): LateRead {
    const read = tensor.dtype === "f32" ? this.readF32(tensor).then(bitsOf) : this.readI32(tensor);
    return { take: () => read };
  }

  replay(key: string, enqueue: () => void): void {
    this.#replays.run(key, enqueue);
  }

  paddedBatch(count: number): number {
    return count;
  }

  /** Kernels read contexts from memory, so that one step is kept for all of them. */
  paddedContext({ contextTokensMax }: DecodeShape): number {
    return contextTokensMax;
  }

  copyBlocks(cache: KvPool, pairs: Int32Array): void {
    const blocks = kvPoolOf(cache);
    this.#move(blocks, blocks, pairs);
  }

  offloadBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    this.#move(kvPoolOf(cache), hostBlocksOf(host), pairs);
  }

  onboardBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    this.#move(hostBlocksOf(host), kvPoolOf(cache), pairs);
  }

  offloadBeside(cache: KvPool, host: HostBlocks, pairs: Int32Array): MovesMark {
    this.offloadBlocks(cache, host, pairs);
    return this.markMoves();
  }

  hostBlock(host: HostBlocks, index: number): Uint8Array {
    const address = hostBlocksOf(host).blockAddress(index);
    return new Uint8Array(this.#library.view(address, host.bytesPerBlock));
  }

  markMoves(): MovesMark {
    return { isDone: () => true };
  }

  markOps(): MovesMark {
    return { isDone: () => true };
  }

  get sharingScope(): string {
    return THREAD_SCOPE;
  }

  describePool(cache: KvPool): string {
    return describeLocalPool(kvPoolOf(cache));
  }

  openPeerPool(description: string, like: KvPool): PeerPool {
    return openLocalPool(description, like);
  }

  pullBlocks(cache: KvPool, peer: PeerPool, pairs: Int32Array): MovesMark {
    assert(peer instanceof LocalPeerPool, "Cannot read another device's pool on cpu");
    this.#move(kvPoolOf(peer.pool), kvPoolOf(cache), pairs);
    return this.markMoves();
  }

  openHostSlots(memory: readonly Uint8Array[], direction: SlotDirection): HostSlots {
    return new MappedSlots(memory, direction);
  }

  putTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    const { address, bytes } = cpuTensor(tensor);
    this.#library.copy(mappedSlots(slots, "out").slot(slot, bytes), address, bytes);
    return this.markMoves();
  }

  takeTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    const { address, bytes } = cpuTensor(tensor);
    this.#library.copy(address, mappedSlots(slots, "in").slot(slot, bytes), bytes);
    return this.markMoves();
  }

  async synchronize(): Promise<void> {}

  release(memory: DeviceMemoryHandle): void {
    assert(
      memory instanceof CpuTensor ||
        memory instanceof CpuActivation ||
        memory instanceof CpuMatrix ||
        memory instanceof CpuKvPool ||
        memory instanceof CpuHostBlocks ||
        memory instanceof MappedSlots ||
        memory instanceof LocalPeerPool,
      "Cannot release another device's memory on cpu",
    );
    if (memory instanceof LocalPeerPool || memory instanceof MappedSlots) return;
    if (memory instanceof CpuHostBlocks && !memory.isOwn) return;
    if (memory instanceof CpuKvPool) forgetLocalPool(memory);
    this.#memory.release(memory.address);
  }

  memory(): DeviceMemory {
    return availableMemory();
  }

  seal(): void {}

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#library.destroyPool(this.#pool);
    this.#memory.dispose();
  }

  #move(from: BlockMemory, to: BlockMemory, pairs: Int32Array): void {
    moveBlocks({ library: this.#library, pool: this.#pool }, { from, to }, pairs);
  }

  #readActivation(source: Activation): Float32Array {
    const { address, rows, columns, formatCode: format } = activationOf(source, 0, source.columns);
    const out = new Float32Array(rows * columns);
    this.#library.unpackActivation(new Params(4).fill(address, format, rows, columns), out);
    return out;
  }
}

function cpuTensor(handle: DeviceTensor): CpuTensor {
  assert(handle instanceof CpuTensor, "Cannot use another device's tensor on cpu");
  return handle;
}

function dtypeOf(data: Float32Array | Int32Array | Uint32Array): DType {
  if (data instanceof Float32Array) return "f32";
  return data instanceof Int32Array ? "i32" : "u32";
}
