import { freemem, totalmem } from "node:os";
import { assert, EngineError } from "#base";
import { bitsOf, type DType, decodeFloats, formatShape, type Shape } from "#tensor";
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
import { MappedSlots, mappedSlots } from "../host-slots.ts";
import {
  describeLocalPool,
  forgetLocalPool,
  LocalPeerPool,
  openLocalPool,
  THREAD_SCOPE,
} from "../local-pools.ts";
import { stackedExtents } from "../weight-source.ts";
import { acceptTrees } from "./accept-trees.ts";
import { activate } from "./activate.ts";
import { add } from "./add.ts";
import { adjustLogits } from "./adjust-logits.ts";
import { convert } from "./convert.ts";
import { embed } from "./embed.ts";
import { encoderAttention } from "./encoder-attention.ts";
import { gatherRows } from "./gather-rows.ts";
import {
  HostKvBlocks,
  HostKvPool,
  hostBytesPerBlock,
  hostKvBlocks,
  hostKvPool,
} from "./host-kv-pool.ts";
import { f32, HostTensor, i32 } from "./host-tensor.ts";
import { joinRows } from "./join-rows.ts";
import { linear } from "./linear.ts";
import { linearActivate } from "./linear-activate.ts";
import { logprobs } from "./logprobs.ts";
import { meanPool } from "./mean-pool.ts";
import { mixtureOfExperts } from "./mixture-of-experts.ts";
import { moveBlocks } from "./move-blocks.ts";
import { moveTokens } from "./move-tokens.ts";
import { norm } from "./norm.ts";
import { PackedRows, packedRows } from "./packed-rows.ts";
import { pagedAttention } from "./paged-attention.ts";
import { raceCandidates } from "./race-candidates.ts";
import { ropeKvWrite } from "./rope-kv-write.ts";
import { rotateHeads } from "./rotate-heads.ts";
import { sample } from "./sample.ts";
import { selectBeams } from "./select-beams.ts";
import { softcap } from "./softcap.ts";
import { spreadRows } from "./spread-rows.ts";
import { takeTokens } from "./take-tokens.ts";
import { traceBeams } from "./trace-beams.ts";

/**
 * The definition of every op, in plain TypeScript: slow and exact. Runs ops at once, on the calling
 * thread. Other devices are tested against it; it is the fallback where no other device runs.
 */
export class ReferenceDevice implements Device {
  readonly kind = "reference";
  readonly description = "reference: plain TypeScript, one thread";
  readonly arithmetic = "reference";
  readonly weightFormats: readonly WeightFormat[] = ["f32", "bf16", "i8", "q8"];
  readonly accelerator = false;
  readonly runsLater = false;

  readonly takeTokens = takeTokens;
  readonly acceptTrees = acceptTrees;
  readonly spreadRows = spreadRows;
  readonly embed = embed;
  readonly norm = norm;
  readonly linear = linear;
  readonly linearActivate = linearActivate;
  readonly activate = activate;
  readonly convert = convert;
  readonly add = add;
  readonly rotateHeads = rotateHeads;
  readonly ropeKvWrite = ropeKvWrite;
  readonly pagedAttention = pagedAttention;
  readonly moveTokens = moveTokens;
  readonly encoderAttention = encoderAttention;
  readonly mixtureOfExperts = mixtureOfExperts;
  readonly gatherRows = gatherRows;
  readonly joinRows = joinRows;
  readonly meanPool = meanPool;
  readonly softcap = softcap;
  readonly adjustLogits = adjustLogits;
  readonly sample = sample;
  readonly logprobs = logprobs;
  readonly raceCandidates = raceCandidates;
  readonly selectBeams = selectBeams;
  readonly traceBeams = traceBeams;

  allocate(dtype: DType, shape: Shape): DeviceTensor {
    return orOutOfMemory(`a tensor ${formatShape(shape)}`, () => HostTensor.allocate(dtype, shape));
  }

  allocateActivation(format: WeightFormat, rows: number, columns: number): Activation {
    const what = `activations ${formatShape([rows, columns])}`;
    return orOutOfMemory(what, () => PackedRows.allocate(format, rows, columns));
  }

  allocateKvPool(options: KvPoolOptions): KvPool {
    return orOutOfMemory(`${options.blocks} KV blocks`, () => new HostKvPool(options));
  }

  kvBytesPerBlock(options: KvBlockOptions): number {
    return hostBytesPerBlock(options);
  }

  allocateHostBlocks(cache: KvPool, blocks: number): HostBlocks {
    const { bytesPerBlock } = cache;
    return orOutOfMemory(`${blocks} host blocks`, () => new HostKvBlocks(blocks, bytesPerBlock));
  }

  rows(tensor: DeviceTensor, start: number, end: number): DeviceTensor {
    assert(tensor instanceof HostTensor, "Cannot use another device's tensor on reference");
    return tensor.slice(start, end);
  }

  activationRows(activation: Activation, start: number, end: number): Activation {
    return packedRows(activation).slice(start, end);
  }

  pack(sources: readonly WeightSource[], options: PackOptions): WeightMatrix {
    const transposed = options.transposed === true;
    const { rows, columns } = stackedExtents(sources, transposed);
    const packed = orOutOfMemory(`a matrix ${formatShape([rows, columns])}`, () =>
      PackedRows.allocateMatrix(options.format, rows, columns),
    );
    let next = 0;
    for (const source of sources) {
      if (options.format === "q8" && source.packed !== undefined && !transposed) {
        next += packed.storeBlocks(next, source.packed.type, source.packed.blocks());
      } else {
        for (const row of sourceRows(source, transposed)) packed.store(next++, row);
      }
    }
    return packed;
  }

  load(source: WeightSource): DeviceTensor {
    return new HostTensor(source.shape, decodeFloats(source.bytes(), source.dtype).slice());
  }

  write(tensor: DeviceTensor, data: Float32Array | Int32Array | Uint32Array, offset = 0): void {
    assert(tensor instanceof HostTensor, "Cannot use another device's tensor on reference");
    assert(
      tensor.data.constructor === data.constructor && offset + data.length <= tensor.data.length,
      `Cannot write ${data.length} elements at ${offset} of ${tensor.dtype} ` +
        formatShape(tensor.shape),
    );
    tensor.data.set(data, offset);
  }

  async readF32(source: DeviceTensor | Activation): Promise<Float32Array> {
    if ("dtype" in source) return f32(source).slice();
    const activation = packedRows(source);
    const out = new Float32Array(activation.rows * activation.columns);
    for (let row = 0; row < activation.rows; row++) {
      out.set(activation.load(row), row * activation.columns);
    }
    return out;
  }

  async readI32(tensor: DeviceTensor): Promise<Int32Array> {
    return i32(tensor).slice();
  }

  readLater(tensor: DeviceTensor): LateRead {
    const read = tensor.dtype === "f32" ? this.readF32(tensor).then(bitsOf) : this.readI32(tensor);
    return { take: () => read };
  }

  get replays(): boolean {
    return false;
  }

  get replaysByShape(): boolean {
    return false;
  }

  replay(_key: string, enqueue: () => void): void {
    enqueue();
  }

  paddedBatch(count: number, _countMax: number): number {
    return count;
  }

  paddedContext({ contextTokens }: DecodeShape): number {
    return contextTokens;
  }

  copyBlocks(cache: KvPool, pairs: Int32Array): void {
    const blocks = hostKvPool(cache);
    moveBlocks(blocks, blocks, pairs);
  }

  offloadBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    moveBlocks(hostKvPool(cache), hostKvBlocks(host), pairs);
  }

  onboardBlocks(cache: KvPool, host: HostBlocks, pairs: Int32Array): void {
    moveBlocks(hostKvBlocks(host), hostKvPool(cache), pairs);
  }

  offloadBeside(cache: KvPool, host: HostBlocks, pairs: Int32Array): MovesMark {
    this.offloadBlocks(cache, host, pairs);
    return this.markMoves();
  }

  hostBlock(host: HostBlocks, index: number): Uint8Array {
    assert(index >= 0 && index < host.blocks, `Cannot view block ${index} of ${host.blocks}`);
    const { buffer, byteOffset, byteLength } = hostKvBlocks(host).block(index);
    return new Uint8Array(buffer, byteOffset, byteLength);
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
    return describeLocalPool(hostKvPool(cache));
  }

  openPeerPool(description: string, like: KvPool): PeerPool {
    return openLocalPool(description, like);
  }

  pullBlocks(cache: KvPool, peer: PeerPool, pairs: Int32Array): MovesMark {
    assert(peer instanceof LocalPeerPool, "Cannot read another device's pool on reference");
    moveBlocks(hostKvPool(peer.pool), hostKvPool(cache), pairs);
    return this.markMoves();
  }

  openHostSlots(memory: readonly Uint8Array[], direction: SlotDirection): HostSlots {
    return new MappedSlots(memory, direction);
  }

  putTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    const bytes = tensorBytes(tensor);
    mappedSlots(slots, "out").slot(slot, bytes.length).set(bytes);
    return this.markMoves();
  }

  takeTensor(slots: HostSlots, slot: number, tensor: DeviceTensor): MovesMark {
    const bytes = tensorBytes(tensor);
    bytes.set(mappedSlots(slots, "in").slot(slot, bytes.length));
    return this.markMoves();
  }

  async synchronize(): Promise<void> {}

  /** Memory that nothing refers to is collected. */
  release(memory: DeviceMemoryHandle): void {
    if (memory instanceof HostKvPool) forgetLocalPool(memory);
  }

  memory(): DeviceMemory {
    return { totalBytes: totalmem(), availableBytes: freemem() };
  }

  seal(): void {}

  dispose(): void {}
}

function tensorBytes(tensor: DeviceTensor): Uint8Array {
  assert(tensor instanceof HostTensor, "Cannot use another device's tensor on reference");
  const { buffer, byteOffset, byteLength } = tensor.data;
  return new Uint8Array(buffer, byteOffset, byteLength);
}

/** The rows of a file's matrix; with `transposed`, its columns. */
function sourceRows(source: WeightSource, transposed: boolean): Float32Array[] {
  const [rows = 0, columns = 0] = source.shape;
  const values = decodeFloats(source.bytes(), source.dtype);
  if (!transposed) {
    return Array.from({ length: rows }, (_, row) =>
      values.subarray(row * columns, (row + 1) * columns),
    );
  }
  return Array.from({ length: columns }, (_, column) =>
    Float32Array.from({ length: rows }, (_value, row) => values[row * columns + column] ?? 0),
  );
}

/** Turns a typed array that is too large to be made into OUT_OF_MEMORY. */
function orOutOfMemory<T>(what: string, make: () => T): T {
  try {
    return make();
  } catch (cause) {
    if (!(cause instanceof RangeError)) throw cause;
    const remedy = "use a smaller model, context or KV pool";
    throw new EngineError("OUT_OF_MEMORY", `Cannot allocate ${what}: ${remedy}`, { cause });
  }
}
