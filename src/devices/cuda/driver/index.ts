/**
 * devices/cuda/driver: libcuda: one GPU, its context, streams, events and captured graphs.
 *
 *   driver.ts            libcuda; driver-calls.ts binds its functions, status.ts makes errors
 *   native-library.ts    opens shared libraries: bind-calls.ts, library-search.ts, loaded-path.ts
 *   gpu.ts               properties of a GPU; primary-context.ts: its context
 *   stream.ts, event.ts, graph.ts, marks.ts   work in order, places in it, captures of it
 *   nccl.ts              finds NCCL
 *
 * @module
 */
export { bindCalls, type Calls } from "./bind-calls.ts";
export { CudaDriver, type CudaVersion, cudaVersionText, findDriver } from "./driver.ts";
export { CudaEvent } from "./event.ts";
export {
  architectureOf,
  CAPABILITY_MIN,
  describeGpu,
  type Gpu,
  gpuText,
  isSupported,
} from "./gpu.ts";
export { CudaGraph, RunnableGraph } from "./graph.ts";
export { type CudaSettings, libraryCandidates } from "./library-search.ts";
export { loadedPath } from "./loaded-path.ts";
export { Marks } from "./marks.ts";
export {
  addressOf,
  type NativeLibrary,
  type NativeValue,
  type OpenLibrary,
  openSystemLibrary,
  viewOf,
} from "./native-library.ts";
export { findNccl } from "./nccl.ts";
export { PrimaryContext } from "./primary-context.ts";
export { CUBLAS_NOT_SUPPORTED, cublasError, nvrtcError } from "./status.ts";
export { CudaStream } from "./stream.ts";
