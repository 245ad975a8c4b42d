/**
 * devices: where tensors live and ops run. One contract, several devices.
 *
 *   device.ts           the contract: memory, weights, KV pool and moves of its blocks
 *   ops.ts              the contract: ops of a step, with shapes
 *   attention-inputs.ts inputs of the ops of attention, and of moves of tokens
 *   device-data.ts      formats of weights and KV, handles of a device's memory
 *   op-table.ts         makes a device's methods from its functions
 *   block-pairs.ts      checks the lists of moves
 *   host-slots.ts       slots by which tensors pass between processes
 *   local-pools.ts      pools of the engines in one thread
 *   kv-scales.ts        scales of 8-bit caches
 *   attention-sinks.ts  checks the sinks of an attention
 *   attention-reach.ts  checks the reach of an encoder's attention
 *   drafter-counts.ts   checks the counts of the ops of a recurrent drafter
 *   rotation.ts         checks the shapes of a rotation of heads
 *   reference/          the definitions, plain TypeScript
 *   cpu/                C++ kernels through FFI
 *   cuda/               CUDA kernels through the driver, NVRTC and cuBLASLt: cuda-device.ts is the
 *                       device, cuda-ops.ts lists its ops, the folders have doors of their own;
 *                       imported only where a GPU is opened or described
 *   open.ts             picks a device by name
 *
 * Invariant: `reference/<op>.ts` defines an op; other devices differ by rounding only.
 *
 * @module
 */
export { availableMemory as hostMemory } from "./cpu/memory.ts";
export type { GpuCeilings } from "./cuda/ceilings.ts";
export type { CudaSettings } from "./cuda/driver/library-search.ts";
export type { KernelProgress } from "./cuda/kernels/kernels.ts";
export type {
  DecodeShape,
  Device,
  DeviceKind,
  DeviceMemory,
  DeviceMemoryHandle,
  HostAllocator,
  HostBlocks,
  HostSlots,
  KvBlockOptions,
  KvPoolOptions,
  KvScales,
  LateRead,
  MovesMark,
  PackedBlocks,
  PackOptions,
  PeerPool,
  RandomElements,
  SlotDirection,
  WeightSource,
} from "./device.ts";
export type {
  Activation,
  DeviceTensor,
  KvFormat,
  KvPool,
  WeightFormat,
  WeightMatrix,
} from "./device-data.ts";
export {
  type DeviceReport,
  describeDevices,
  measureGpuCeilings,
  type OpenDeviceOptions,
  openDevice,
} from "./open.ts";
export type * from "./ops.ts";
export { type QuantizedRows, quantGroupColumns, quantizeRows } from "./reference/quantize.ts";
export { randomSource } from "./reference/random-weights.ts";
export { ReferenceDevice } from "./reference/reference-device.ts";
