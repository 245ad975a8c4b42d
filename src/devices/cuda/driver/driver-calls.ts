/**
 * The functions of libcuda that are used here, by the names of cuda.h, with the versions of their
 * symbols that CUDA 12.4 has. Addresses on the device are u64 (CUdeviceptr); handles are pointers.
 */
import { bindCalls, type Calls } from "./bind-calls.ts";
import type { NativeLibrary } from "./native-library.ts";

const signatures = {
  cuInit: "cuInit(uint32_t flags)",
  cuDriverGetVersion: "cuDriverGetVersion(void *version)",
  cuGetErrorName: "cuGetErrorName(int error, _Inout_ const char **name)",
  cuGetErrorString: "cuGetErrorString(int error, _Inout_ const char **text)",
  cuDeviceGetCount: "cuDeviceGetCount(void *count)",
  cuDeviceGet: "cuDeviceGet(void *device, int ordinal)",
  cuDeviceGetName: "cuDeviceGetName(void *name, int length, int device)",
  cuDeviceGetAttribute: "cuDeviceGetAttribute(void *value, int attribute, int device)",
  cuDeviceTotalMem: "cuDeviceTotalMem_v2(void *bytes, int device)",
  cuDevicePrimaryCtxRetain: "cuDevicePrimaryCtxRetain(void *context, int device)",
  cuDevicePrimaryCtxRelease: "cuDevicePrimaryCtxRelease_v2(int device)",
  cuCtxSetCurrent: "cuCtxSetCurrent(void *context)",
  cuCtxSynchronize: "cuCtxSynchronize()",

  cuMemGetInfo: "cuMemGetInfo_v2(void *free, void *total)",
  cuMemAlloc: "cuMemAlloc_v2(void *address, size_t bytes)",
  cuMemFree: "cuMemFree_v2(uint64_t address)",
  cuMemHostAlloc: "cuMemHostAlloc(void *address, size_t bytes, uint32_t flags)",
  cuMemFreeHost: "cuMemFreeHost(void *address)",
  cuMemHostRegister: "cuMemHostRegister_v2(void *address, size_t bytes, uint32_t flags)",
  cuMemHostUnregister: "cuMemHostUnregister(void *address)",
  cuMemGetAddressRange: "cuMemGetAddressRange_v2(void *base, void *bytes, uint64_t address)",
  cuIpcGetMemHandle: "cuIpcGetMemHandle(void *handle, uint64_t address)",
  cuIpcOpenMemHandle:
    "cuIpcOpenMemHandle_v2(void *address, PerigeeIpcHandle handle, uint32_t flags)",
  cuIpcCloseMemHandle: "cuIpcCloseMemHandle(uint64_t address)",
  cuMemsetD8Async: "cuMemsetD8Async(uint64_t to, uint8_t value, size_t count, void *stream)",
  cuMemsetD32Async: "cuMemsetD32Async(uint64_t to, uint32_t value, size_t count, void *stream)",
  cuMemcpyHtoDAsync: "cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t bytes, void *stream)",
  cuMemcpyDtoHAsync: "cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *stream)",
  cuMemcpyDtoDAsync: "cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void *stream)",

  cuStreamCreateWithPriority:
    "cuStreamCreateWithPriority(void *stream, uint32_t flags, int priority)",
  cuStreamDestroy: "cuStreamDestroy_v2(void *stream)",
  cuStreamSynchronize: "cuStreamSynchronize(void *stream)",
  cuStreamQuery: "cuStreamQuery(void *stream)",
  cuStreamWaitEvent: "cuStreamWaitEvent(void *stream, void *event, uint32_t flags)",
  cuEventCreate: "cuEventCreate(void *event, uint32_t flags)",
  cuEventDestroy: "cuEventDestroy_v2(void *event)",
  cuEventRecord: "cuEventRecord(void *event, void *stream)",
  cuEventQuery: "cuEventQuery(void *event)",
  cuEventSynchronize: "cuEventSynchronize(void *event)",
  cuEventElapsedTime: "cuEventElapsedTime(void *milliseconds, void *start, void *end)",

  cuModuleLoadData: "cuModuleLoadData(void *module, const void *image)",
  cuModuleUnload: "cuModuleUnload(void *module)",
  cuModuleGetFunction: "cuModuleGetFunction(void *function, void *module, const char *name)",
  cuFuncGetAttribute: "cuFuncGetAttribute(void *value, int attribute, void *function)",
  cuFuncSetAttribute: "cuFuncSetAttribute(void *function, int attribute, int value)",
  cuOccupancyMaxActiveBlocksPerMultiprocessor:
    "cuOccupancyMaxActiveBlocksPerMultiprocessor(void *blocks, void *function, int threads, " +
    "size_t sharedBytes)",
  cuTensorMapEncodeTiled:
    "cuTensorMapEncodeTiled(void *map, int element, uint32_t rank, uint64_t address, " +
    "void *sizes, void *strides, void *box, void *steps, int interleave, int swizzle, " +
    "int promotion, int fill)",
  cuLaunchKernelEx: "cuLaunchKernelEx(void *config, void *function, void *params, void *extra)",

  cuStreamBeginCapture: "cuStreamBeginCapture_v2(void *stream, int mode)",
  cuStreamEndCapture: "cuStreamEndCapture(void *stream, void *graph)",
  cuGraphDestroy: "cuGraphDestroy(void *graph)",
  cuGraphGetNodes: "cuGraphGetNodes(void *graph, void *nodes, void *count)",
  cuGraphInstantiate: "cuGraphInstantiateWithFlags(void *exec, void *graph, uint64_t flags)",
  cuGraphExecUpdate: "cuGraphExecUpdate_v2(void *exec, void *graph, void *result)",
  cuGraphExecDestroy: "cuGraphExecDestroy(void *exec)",
  cuGraphUpload: "cuGraphUpload(void *exec, void *stream)",
  cuGraphLaunch: "cuGraphLaunch(void *exec, void *stream)",
};

/** libcuda, function by function; each returns a CUresult. */
export type DriverCalls = Calls<keyof typeof signatures>;

/** Throws DEVICE_UNAVAILABLE for a driver that lacks one of them. */
export function bindDriver(library: NativeLibrary): DriverCalls {
  const remedy = "update the NVIDIA driver to 550 or newer";
  return bindCalls(library, { signatures, remedy });
}
