// An emulated libcuda: one GPU of compute capability 9.0 whose kernels are C++ modules (nvrtc.cpp).
// Device memory ends where a protected page begins.
#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <string>

#include "fibers.h"
#include "work-queue.h"

#define API extern "C" __attribute__((visibility("default"))) int

namespace emulator {
namespace {

/// Work of one stream; a wait is an item that has no work.
struct Stream;
struct Item {
  Work work;
  Stream* awaited;
  uint64_t until;
};
struct Stream {
  std::deque<Item> items;
  uint64_t added = 0;
  uint64_t done = 0;
};
/// Behind `at` items of a stream; null: never recorded.
struct Event {
  Stream* stream = nullptr;
  uint64_t at = 0;
};

std::vector<Stream*> streams;
size_t rounds = 0;
std::vector<Work>* captured = nullptr;
bool invalidated = false;

const char* running = "nothing";
EmulatedThread thread;

/// A touched guard page, or worse: says where, since there is nothing to go on with.
void onFault(int, siginfo_t* info, void*) {
  const auto &block = thread.blockIdx, &index = thread.threadIdx;
  std::fprintf(stderr, "emulator: %s touched %p in block (%u, %u, %u), thread (%u, %u, %u)\n",
               running, info->si_addr, block.x, block.y, block.z, index.x, index.y, index.z);
  std::_Exit(1);
}

void watchFaults() {
  static char stack[64 << 10];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof(stack);
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = &onFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

void enqueue(void* stream, Work work) {
  if (captured != nullptr) return captured->push_back(std::move(work));
  auto* const to = static_cast<Stream*>(stream);
  to->items.push_back({std::move(work), nullptr, 0});
  ++to->added;
}

/// Does what a stream has, up to a wait for something that is not done. Whether there was any.
static bool advance(Stream& stream) {
  const uint64_t before = stream.done;
  while (!stream.items.empty()) {
    const Item item = stream.items.front();
    if (item.awaited != nullptr && item.awaited->done < item.until) break;
    stream.items.pop_front();
    if (item.work) item.work();
    ++stream.done;
  }
  return stream.done > before;
}

void finish() {
  const size_t first = rounds++;
  for (bool some = true; some;) {
    some = false;
    for (size_t i = 0; i < streams.size() && !some; ++i) {
      some = advance(*streams[(first + i) % streams.size()]);
    }
  }
}

void beginCapture() {
  captured = new std::vector<Work>();
  invalidated = false;
}

/// Calls that wait or allocate are refused while a stream is captured, and make the capture void.
bool refused() {
  if (captured != nullptr) invalidated = true;
  return captured != nullptr;
}

std::vector<Work> endCapture() {
  std::vector<Work> all;
  if (captured != nullptr) all.swap(*captured);
  delete captured;
  captured = nullptr;
  return all;
}

}  // namespace emulator

using emulator::enqueue;

namespace {

constexpr int kInvalid = 1, kNoMemory = 2, kBadImage = 200, kNotFound = 500;
constexpr int kNotInCapture = 900, kCaptureInvalidated = 901;
constexpr size_t kMemoryBytes = size_t{4} << 30;
constexpr size_t kPage = 4096;

struct Region {
  void* mapping;
  size_t bytes;
};
std::map<uint64_t, Region> regions;
size_t usedBytes = 0;

struct Module {
  void* handle;
};

struct Function {
  std::string name;
  void* entry;
};

struct LaunchConfig {
  unsigned grid[3], block[3], sharedBytes;
  void* stream;
  void* attributes;
  unsigned attributeCount;
};

/// Kernels take one struct by value. The convention passes one of more than 16 bytes on the stack,
/// where a larger one does no harm.
struct Arguments {
  alignas(16) char bytes[4096];
};

Arguments copyArguments(void* from) {
  Arguments arguments = {};
  // Its size is not known here, and memory may end behind it: the system copies what there is.
  iovec to = {arguments.bytes, sizeof(arguments.bytes)};
  const uintptr_t start = reinterpret_cast<uintptr_t>(from);
  const size_t first = kPage - start % kPage;
  iovec parts[2] = {{from, first}, {reinterpret_cast<void*>(start + first), sizeof(to) + kPage}};
  parts[1].iov_len = sizeof(arguments.bytes) > first ? sizeof(arguments.bytes) - first : 0;
  if (process_vm_readv(getpid(), &to, 1, parts, 2, 0) > 0) return arguments;
  // Some sandboxes forbid it. No struct of ours is longer, and the heap hardly ever ends there.
  std::memcpy(arguments.bytes, from, 2048);
  return arguments;
}

void runKernel(const Function& function, const LaunchConfig& config, const Arguments& arguments) {
  EmulatedThread& thread = emulator::thread;
  emulator::running = function.name.c_str();
  thread.gridDim = {config.grid[0], config.grid[1], config.grid[2]};
  thread.blockDim = {config.block[0], config.block[1], config.block[2]};
  const auto call = reinterpret_cast<void (*)(Arguments)>(function.entry);
  for (unsigned z = 0; z < config.grid[2]; ++z) {
    for (unsigned y = 0; y < config.grid[1]; ++y) {
      for (unsigned x = 0; x < config.grid[0]; ++x) {
        thread.blockIdx = {x, y, z};
        emulator::runBlock(thread, [&] { call(arguments); });
      }
    }
  }
  emulator::running = "nothing";
}

template <typename T>
void put(void* out, T value) {
  std::memcpy(out, &value, sizeof(value));
}

}  // namespace

API cuInit(unsigned) {
  emulator::watchFaults();
  return 0;
}
API cuDriverGetVersion(int* version) { return put(version, 13090), 0; }
API cuGetErrorName(int, const char** name) { return *name = "EMULATED_ERROR", 0; }
API cuGetErrorString(int, const char** text) { return *text = "see the emulator", 0; }
API cuDeviceGetCount(int* count) { return *count = 1, 0; }
API cuDeviceGet(int* device, int ordinal) { return *device = ordinal, ordinal == 0 ? 0 : 101; }
API cuDeviceGetName(char* name, int length, int) {
  std::snprintf(name, static_cast<size_t>(length), "Emulated GPU");
  return 0;
}
API cuDeviceGetAttribute(int* value, int attribute, int) {
  const std::map<int, int> known = {{16, 4}, {38, 1 << 20}, {75, 9}, {76, 0}, {97, 227 << 10}};
  const auto found = known.find(attribute);
  *value = found == known.end() ? 0 : found->second;
  return 0;
}
API cuDeviceTotalMem_v2(size_t* bytes, int) { return *bytes = kMemoryBytes, 0; }
API cuDevicePrimaryCtxRetain(void** context, int) { return *context = &regions, 0; }
API cuDevicePrimaryCtxRelease_v2(int) { return 0; }
API cuCtxSetCurrent(void*) { return 0; }
API cuCtxSynchronize() {
  if (emulator::refused()) return kNotInCapture;
  return emulator::finish(), 0;
}

API cuMemGetInfo_v2(size_t* available, size_t* total) {
  *available = kMemoryBytes - usedBytes;
  *total = kMemoryBytes;
  return 0;
}
API cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  if (emulator::refused()) return kNotInCapture;
  if (bytes > kMemoryBytes - usedBytes) return kNoMemory;
  const size_t pages = (bytes + kPage - 1) / kPage * kPage;
  auto* const mapping = static_cast<char*>(mmap(nullptr, pages + kPage, PROT_READ | PROT_WRITE,
                                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (mapping == MAP_FAILED) return kNoMemory;
  mprotect(mapping + pages, kPage, PROT_NONE);
  // The end is 16 bytes before the guard at most: kernels may load that much at once.
  const uint64_t start = reinterpret_cast<uint64_t>(mapping + pages) - (bytes + 15) / 16 * 16;
  regions[start] = {mapping, pages + kPage};
  usedBytes += pages;
  return *address = start, 0;
}
API cuMemFree_v2(uint64_t address) {
  if (emulator::refused()) return kNotInCapture;
  emulator::finish();
  const auto found = regions.find(address);
  if (found == regions.end()) return kInvalid;
  munmap(found->second.mapping, found->second.bytes);
  usedBytes -= found->second.bytes - kPage;
  regions.erase(found);
  return 0;
}
// Interprocess handles name memory of this process: the driver refuses those, the emulator has no
// other process.
struct IpcHandle {
  uint64_t address;
  char rest[56];
};
API cuIpcGetMemHandle(IpcHandle* handle, uint64_t address) {
  if (regions.find(address) == regions.end()) return kInvalid;
  *handle = {};
  return handle->address = address, 0;
}
API cuIpcOpenMemHandle_v2(uint64_t* address, IpcHandle handle, unsigned flags) {
  if (flags != 1 || regions.find(handle.address) == regions.end()) return kInvalid;
  return *address = handle.address, 0;
}
API cuIpcCloseMemHandle(uint64_t address) {
  return emulator::finish(), regions.find(address) == regions.end() ? kInvalid : 0;
}
API cuMemGetAddressRange_v2(uint64_t* base, size_t* bytes, uint64_t address) {
  const auto found = regions.upper_bound(address);
  if (found == regions.begin()) return kInvalid;
  const auto region = std::prev(found);
  *base = region->first;
  *bytes = region->second.bytes;
  return 0;
}
API cuMemHostAlloc(void** address, size_t bytes, unsigned) {
  if (bytes > size_t{64} << 30) return kNoMemory;
  return posix_memalign(address, kPage, bytes) == 0 ? 0 : kNoMemory;
}
API cuMemFreeHost(void* address) { return emulator::finish(), std::free(address), 0; }
API cuMemHostRegister_v2(void* address, size_t bytes, unsigned) {
  return address == nullptr || bytes == 0 ? kInvalid : 0;
}
API cuMemHostUnregister(void*) { return emulator::finish(), 0; }
API cuMemsetD8Async(uint64_t to, unsigned char value, size_t count, void* stream) {
  enqueue(stream, [=] { std::memset(reinterpret_cast<void*>(to), value, count); });
  return 0;
}
API cuMemsetD32Async(uint64_t to, unsigned value, size_t count, void* stream) {
  enqueue(stream, [=] {
    for (size_t i = 0; i < count; ++i) reinterpret_cast<unsigned*>(to)[i] = value;
  });
  return 0;
}
static int copyLater(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  enqueue(stream, [=] {
    std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  });
  return 0;
}
API cuMemcpyHtoDAsync_v2(uint64_t to, void* from, size_t bytes, void* stream) {
  return copyLater(to, reinterpret_cast<uint64_t>(from), bytes, stream);
}
API cuMemcpyDtoHAsync_v2(void* to, uint64_t from, size_t bytes, void* stream) {
  return copyLater(reinterpret_cast<uint64_t>(to), from, bytes, stream);
}
API cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, void* stream) {
  return copyLater(to, from, bytes, stream);
}

API cuStreamCreateWithPriority(void** stream, unsigned, int) {
  emulator::streams.push_back(new emulator::Stream());
  return *stream = emulator::streams.back(), 0;
}
API cuStreamDestroy_v2(void*) { return 0; }
API cuStreamSynchronize(void*) {
  if (emulator::refused()) return kNotInCapture;
  return emulator::finish(), 0;
}
API cuStreamQuery(void*) {
  if (emulator::refused()) return kNotInCapture;
  return emulator::finish(), 0;
}
API cuStreamWaitEvent(emulator::Stream* stream, emulator::Event* event, unsigned) {
  if (emulator::refused()) return kNotInCapture;
  if (event->stream == nullptr) return 0;
  stream->items.push_back({nullptr, event->stream, event->at});
  return ++stream->added, 0;
}
API cuEventCreate(void** event, unsigned) { return *event = new emulator::Event(), 0; }
API cuEventDestroy_v2(emulator::Event* event) { return delete event, 0; }
API cuEventRecord(emulator::Event* event, emulator::Stream* stream) {
  return *event = {stream, stream->added}, 0;
}
API cuEventQuery(void*) { return emulator::finish(), 0; }
API cuEventSynchronize(void*) { return emulator::finish(), 0; }
API cuEventElapsedTime(float* milliseconds, void*, void*) { return *milliseconds = 0, 0; }

API cuModuleLoadData(void** module, const char* image) {
  // What nvrtc.cpp calls machine code: a mark, a size, and the bytes of a shared library.
  if (std::memcmp(image, "EMULATED", 8) != 0) return kBadImage;
  uint64_t bytes;
  std::memcpy(&bytes, image + 8, sizeof(bytes));
  char path[] = P_tmpdir "/perigee-emulator-XXXXXX";
  const int file = mkstemp(path);
  if (file < 0 || write(file, image + 16, bytes) != static_cast<ssize_t>(bytes)) return kBadImage;
  close(file);
  void* const handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (handle == nullptr) return std::fprintf(stderr, "emulator: %s\n", dlerror()), kBadImage;
  const auto attach = reinterpret_cast<void (*)(EmulatedThread*)>(dlsym(handle, "emulator_attach"));
  attach(&emulator::thread);
  return *module = new Module{handle}, 0;
}
API cuModuleUnload(Module* module) { return emulator::finish(), dlclose(module->handle); }
API cuModuleGetFunction(void** function, Module* module, const char* name) {
  void* const entry = dlsym(module->handle, name);
  if (entry == nullptr) return kNotFound;
  return *function = new Function{name, entry}, 0;
}
API cuFuncGetAttribute(int* value, int attribute, Function*) {
  return *value = attribute == 0 ? 1024 : 0, 0;
}
API cuFuncSetAttribute(Function*, int, int) { return 0; }
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, Function*, int threads, size_t) {
  return *blocks = 2048 / threads, 0;
}
/// What hopper.h beside this reads; refuses what the real one does, as far as it is known.
API cuTensorMapEncodeTiled(char* map, int, unsigned rank, uint64_t address, const uint64_t* sizes,
                           const uint64_t* strides, const unsigned* box, const unsigned* steps,
                           int interleave, int swizzle, int, int fill) {
  if (reinterpret_cast<uint64_t>(map) % 64 != 0 || rank != 5 || address % 16 != 0) return kInvalid;
  if (interleave != 0 || fill != 0 || box[0] * 2 > 128) return kInvalid;
  std::memset(map, 0, 128);
  put(map, address);
  put(map + 8, uint64_t{2});
  for (unsigned i = 0; i < rank; ++i) {
    if (box[i] < 1 || box[i] > 256 || steps[i] != 1 || sizes[i] < 1) return kInvalid;
    put(map + 48 + 4 * i, static_cast<unsigned>(sizes[i]));
    put(map + 68 + 2 * i, static_cast<uint16_t>(box[i]));
    if (i + 1 == rank) continue;
    if (strides[i] % 16 != 0 || strides[i] >> 40 != 0) return kInvalid;
    put(map + 16 + 8 * i, strides[i]);
  }
  put(map + 78, static_cast<uint16_t>(swizzle == 3));
  return 0;
}
API cuLaunchKernelEx(const LaunchConfig* config, Function* function, void** params, void** extra) {
  const unsigned threads = config->block[0] * config->block[1] * config->block[2];
  const bool empty = config->grid[0] == 0 || config->grid[1] == 0 || config->grid[2] == 0;
  if (extra != nullptr || empty || threads == 0 || threads > 1024) return kInvalid;
  if (config->sharedBytes > 227u << 10) return kInvalid;
  enqueue(config->stream, [copy = *config, function, arguments = copyArguments(params[0])] {
    runKernel(*function, copy, arguments);
  });
  return 0;
}

using Graph = std::vector<emulator::Work>;

API cuStreamBeginCapture_v2(void*, int) { return emulator::beginCapture(), 0; }
API cuStreamEndCapture(void*, void** graph) {
  if (emulator::invalidated) return emulator::endCapture(), *graph = nullptr, kCaptureInvalidated;
  return *graph = new Graph(emulator::endCapture()), 0;
}
API cuGraphDestroy(Graph* graph) { return delete graph, 0; }
API cuGraphGetNodes(Graph* graph, void*, size_t* count) { return *count = graph->size(), 0; }
API cuGraphInstantiateWithFlags(void** exec, Graph* graph, uint64_t) {
  return *exec = new Graph(*graph), 0;
}
API cuGraphExecUpdate_v2(Graph* exec, Graph* graph, void*) {
  if (exec->size() != graph->size()) return 910;
  return *exec = *graph, 0;
}
API cuGraphExecDestroy(Graph* exec) { return delete exec, 0; }
API cuGraphUpload(Graph*, void*) { return 0; }
API cuGraphLaunch(Graph* exec, void* stream) {
  for (const emulator::Work& work : *exec) enqueue(stream, work);
  return 0;
}
