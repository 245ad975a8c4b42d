/**
 * devices/cuda/memory: memory of the GPU and pinned memory of the host.
 *
 *   memory.ts            allocates and frees both
 *   scratch.ts, arrivals.ts, address-tables.ts   device memory of ops: intermediate results,
 *                        counters of finished blocks, lists of addresses
 *   handles.ts           tensors, activations and matrices: an address and a shape
 *   kv-pool.ts           blocks of keys and values; host-blocks.ts: those in host memory
 *   host-slots.ts        slots by which tensors pass to another process
 *   layer-moves.ts       moves between the two, layer by layer; mark.ts: their ends
 *   peer-pools.ts        blocks of other processes, and copies from there
 *   staging.ts, late-reads.ts   copies between JavaScript's memory and the device
 *
 * @module
 */
export { AddressTables } from "./address-tables.ts";
export { allocateArrivals } from "./arrivals.ts";
export {
  activationOf,
  anyTensor,
  asPackedRows,
  CudaActivation,
  CudaMatrix,
  CudaTensor,
  elementCode,
  FORMATS,
  matrixOf,
  rowBytes,
  scaleOffset,
  tensorOf,
  vectorOf,
} from "./handles.ts";
export { CudaHostBlocks, hostBlocksOf } from "./host-blocks.ts";
export { CudaHostSlots } from "./host-slots.ts";
export { CudaKvPool, KV_LAYER, kvBytesPerBlock, kvPoolOf } from "./kv-pool.ts";
export { LateReads } from "./late-reads.ts";
export { LayerMoves, type MoveEnds } from "./layer-moves.ts";
export { StreamsMark } from "./mark.ts";
export { CudaMemory } from "./memory.ts";
export { CudaPeerPool, PeerPools } from "./peer-pools.ts";
export { Scratch } from "./scratch.ts";
export { Staging } from "./staging.ts";
