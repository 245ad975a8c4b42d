import { assert } from "#base";
import { architectureOf, gpuText, type Marks, viewOf } from "#devices/cuda/driver";
import { paddedBatch, paddedContext } from "#devices/cuda/graphs";
import {
  activationOf,
  anyTensor,
  CudaActivation,
  CudaHostBlocks,
  CudaHostSlots,
  CudaKvPool,
  CudaMatrix,
  CudaPeerPool,
  CudaTensor,
  hostBlocksOf,
  kvBytesPerBlock,
  kvPoolOf,
  type MoveEnds,
  rowBytes,
  StreamsMark,
} from "#devices/cuda/memory";
import { copyBlocks, decodesFrom, loadTensor, packMatrix, SHORT_CONTEXT } from "#devices/cuda/ops";
import { readActivation } from "#devices/cuda/weights";
import { bytesOf, type DType, elementCount, formatShape, type Shape } from "#tensor";
import type {
  DecodeShape,
  Device,
  DeviceMemory,
  DeviceMemoryHandle,
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
import { CudaOps } from "./cuda-ops.ts";
import { CudaSession, type CudaSessionOptions } from "./cuda-session.ts";

/**
 * An NVIDIA GPU. Ops are enqueued on one stream, in call order; `readF32`, `readI32`, `synchronize`
 * and results of `readLater` block the calling thread until they are done. The device belongs to
 * the thread that opened it.
 */
export class CudaDevice extends CudaOps implements Device {
  readonly kind = "cuda";
  readonly description: string;
  readonly arithmetic: string;
  /** bf16 first: tensor cores multiply it without conversion. */
  readonly weightFormats: readonly WeightFormat[] = ["bf16", "f32", "i8"];
  readonly accelerator = true;
  readonly runsLater = true;
  readonly replays: boolean;
  readonly replaysByShape = false;
  /** Timed places in the stream: each launched graph, and each late read. Off until started. */
  readonly marks: Marks;
  readonly #session: CudaSession;

  private constructor(session: CudaSession) {
    super(session.context);
    this.#session = session;
    this.replays = session.replays !== null;
    this.marks = session.marks;
    this.description = `cuda: ${gpuText(session.gpu)}, ${architectureOf(session.gpu)}`;
    // The split of work over a GPU, and so the order of sums, follows from all of that.
    this.arithmetic = this.description;
  }

  /**
   * Opens a GPU and loads its kernels, compiling those that are not on disk. Throws
   * DEVICE_UNAVAILABLE, with the remedy, when there is no GPU or a required part is missing.
   */
  static async open(options: CudaSessionOptions = {}): Promise<CudaDevice> {
    return new CudaDevice(await CudaSession.open(options));
  }

  allocate(dtype: DType, shape: Shape): DeviceTensor {
    const bytes = elementCount(shape) * bytesOf(dtype);
    const what = `a tensor ${formatShape(shape)} of ${dtype}`;
    return new CudaTensor(dtype, shape, this.#session.memory.allocate(bytes, what));
  }

  allocateActivation(format: WeightFormat, rows: number, columns: number): Activation {
    const what = `activations ${formatShape([rows, columns])} of ${format}`;
    const address = this.#session.memory.allocate(rows * rowBytes(format, columns), what);
    return new CudaActivation(format, rows, columns, address);
  }

  allocateKvPool(options: KvPoolOptions): KvPool {
    const bytes = options.blocks * kvBytesPerBlock(options);
    const address = this.#session.memory.allocate(bytes, `${options.blocks} KV blocks`);
    return new CudaKvPool(options, address);
  }

  kvBytesPerBlock(options: KvBlockOptions): number {
    return kvBytesPerBlock(options);
  }

  allocateHostBlocks(cache: KvPool, blocks: number): HostBlocks {
    const { bytesPerBlock } = kvPoolOf(cache);
    const what = `${blocks} host blocks`;
    const address = this.#session.memory.allocateHost(blocks * bytesPerBlock, what);
    return new CudaHostBlocks(blocks, bytesPerBlock, address);
  }

  rows(tensor: DeviceTensor, start: number, end: number): DeviceTensor {
    return anyTensor(tensor).slice(start, end);
  }

  activationRows(activation: Activation, start: number, end: number): Activation {
    return activationOf(activation, end, activation.columns).slice(start, end);
  }

  pack(sources: readonly WeightSource[], options: PackOptions): WeightMatrix {
    return packMatrix(this.#session, sources, options);
  }

  load(source: WeightSource): DeviceTensor {
    const tensor = anyTensor(this.allocate("f32", source.shape));
    loadTensor(this.#session, source, tensor);
    return tensor;
  }

  write(tensor: DeviceTensor, data: Float32Array | Int32Array | Uint32Array, offset = 0): void {
    const target = anyTensor(tensor);
    assert(
      target.dtype === dtypeOf(data) && offset + data.length <= target.rows * target.columns,
      `Cannot write ${data.length} elements at ${offset} of ${target.dtype} ` +
        formatShape(target.shape),
    );
    this.#session.staging.upload(target.address + BigInt(offset * 4), data);
  }

  async readF32(source: DeviceTensor | Activation): Promise<Float32Array> {
    if (!("dtype" in source)) return this.#readActivation(source);
    const { dtype, rows, columns, address } = anyTensor(source);
    assert(dtype === "f32", `Cannot read floats of an ${dtype} tensor`);
    const out = new Float32Array(rows * columns);
    this.#session.staging.download(out, address);
    return out;
  }

  async readI32(source: DeviceTensor): Promise<Int32Array> {
    const { dtype, rows, columns, address } = anyTensor(source);
    assert(dtype === "i32", `Cannot read integers of an ${dtype} tensor`);
    const out = new Int32Array(rows * columns);
    this.#session.staging.download(out, address);
    return out;
  }

  readLater(tensor: DeviceTensor): LateRead {
    const { rows, columns, address } = anyTensor(tensor);
    const { lateReads, marks, staging } = this.#session;
    marks.add("read");
    const count = rows * columns;
    if (count <= lateReads.elementsMax) return lateReads.read(address, count);
    // Too large for the ring: read at once.
    const out = new Int32Array(count);
    staging.download(out, address);
    return { take: () => Promise.resolve(out) };
  }

  replay(key: string, enqueue: () => void): void {
    const { replays, marks, moves } = this.#session;
    marks.add("step", key);
    // A captured graph cannot wait for work outside of it.
    moves.settle();
    if (replays === null) enqueue();
    else replays.run(key, enqueue);
    marks.add("step done", key);
  }

  paddedBatch(count: number, countMax: number): number {
    return this.replays ? paddedBatch(count, countMax) : count;
  }

  paddedContext(shape: DecodeShape): number {
    const { sequences, contextTokens, contextTokensMax, cache, format } = shape;
    if (!this.replays) return contextTokens;
    if (decodesFrom(cache, format, sequences)) {
      // Of rows of drafts, which have nearly equal contexts, short ones are worth a launch.
      const isShort = shape.rowsApart === true && contextTokens <= SHORT_CONTEXT;
      return isShort ? Math.min(SHORT_CONTEXT, contextTokensMax) : contextTokensMax;
    }
    return Math.min(paddedContext(contextTokens, sequences), contextTokensMax);
  }

  copyBlocks(cache: KvPool, pairs: Int32Array): void {
    copyBlocks(this.#session.context, kvPoolOf(cache), pairs);
  }

  offloadBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    this.#session.moves.enqueue("offload", moveEnds(cache, host), pairs);
  }

  onboardBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    this.#session.moves.enqueue("onboard", moveEnds(cache, host), pairs);
  }

  offloadBeside(cache: KvPool, host: HostBlocks, pairs: Int32Array): MovesMark {
    return this.#session.moves.offloadBeside(moveEnds(cache, host), pairs);
  }

  hostBlock(host: HostBlocks, index: number): Uint8Array {
    const blocks = hostBlocksOf(host);
    return viewOf(blocks.blockAddress(index), blocks.bytesPerBlock);
  }

  markMoves(): MovesMark {
    return this.#session.moves.mark();
  }

  markOps(): MovesMark {
    const { driver, stream, moves } = this.#session;
    return new StreamsMark(driver, [stream, ...moves.streams]);
  }

  get sharingScope(): string {
    return this.#session.sharingScope;
  }

  describePool(cache: KvPool): string {
    return this.#session.peers.describe(kvPoolOf(cache));
  }

  openPeerPool(description: string, like: KvPool): PeerPool {
    return this.#session.peers.open(description, kvPoolOf(like));
  }

  pullBlocks(cache: KvPool, peer: PeerPool, pairs: Int32Array): MovesMark {
    assert(peer instanceof CudaPeerPool, "Cannot read another device's pool on cuda");
    return this.#session.peers.pull(kvPoolOf(cache), peer, pairs);
  }

  openHostSlots(memory: readonly Uint8Array[], direction: SlotDirection): HostSlots {
    return this.#session.openHostSlots(memory, direction);
  }

  putTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    return cudaSlots(slots).put(slot, anyTensor(tensor));
  }

  takeTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    return cudaSlots(slots).take(slot, anyTensor(tensor));
  }

  async synchronize(): Promise<void> {
    this.#session.synchronize();
  }

  release(memory: DeviceMemoryHandle): void {
    assert(
      memory instanceof CudaTensor ||
        memory instanceof CudaActivation ||
        memory instanceof CudaMatrix ||
        memory instanceof CudaKvPool ||
        memory instanceof CudaHostBlocks ||
        memory instanceof CudaHostSlots ||
        memory instanceof CudaPeerPool,
      "Cannot release another device's memory on cuda",
    );
    if (memory instanceof CudaPeerPool) {
      this.#session.peers.close(memory);
      return;
    }
    if (memory instanceof CudaHostSlots) {
      this.#session.closeHostSlots(memory);
      return;
    }
    if (memory instanceof CudaKvPool) this.#session.moves.forget(memory);
    this.#session.memory.release(memory.address);
  }

  memory(): DeviceMemory {
    return this.#session.memory.size();
  }

  seal(): void {
    this.#session.files.close();
    this.#session.memory.seal();
  }

  dispose(): void {
    this.#session.dispose();
  }

  #readActivation(source: Activation): Float32Array {
    const rows = activationOf(source, 0, source.columns);
    const bytes = new Uint8Array(rows.bytes);
    this.#session.staging.download(bytes, rows.address);
    return readActivation(rows, bytes);
  }
}

function cudaSlots(slots: HostSlots): CudaHostSlots {
  assert(slots instanceof CudaHostSlots, "Cannot use another device's slots on cuda");
  return slots;
}

/** The two sides of moves, which have blocks of one size. */
function moveEnds(cacheHandle: KvPool, hostHandle: HostBlocks): MoveEnds {
  const [cache, host] = [kvPoolOf(cacheHandle), hostBlocksOf(hostHandle)];
  assert(
    cache.bytesPerBlock === host.bytesPerBlock,
    `Cannot move blocks of ${cache.bytesPerBlock} bytes to blocks of ${host.bytesPerBlock}`,
  );
  return { cache, host };
}

function dtypeOf(data: Float32Array | Int32Array | Uint32Array): DType {
  if (data instanceof Float32Array) return "f32";
  return data instanceof Int32Array ? "i32" : "u32";
}
