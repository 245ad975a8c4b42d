#include "fibers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace emulator {
namespace {

constexpr size_t kStackBytes = 128 << 10;
/// Stacks begin so far apart, modulo a page and more: at one place of each, the frames of all
/// threads would share a few lines of the cache.
constexpr size_t kStackStep = 13 * 64;
constexpr size_t kStackStart = 16 << 10;
constexpr unsigned kWarp = 32;
/// Exchanges of a warp before another one runs, and the most of them by chance. Warp by warp, the
/// stacks of the threads that take turns fit the cache.
constexpr unsigned kAhead = 16;
constexpr unsigned kAheadMax = 300;

/// Why a fiber does not run.
enum class State { ready, atBarrier, atExchange, done };

struct Fiber {
  void* stackPointer = nullptr;
  EmulatedThread::Dim3 index = {};
  State state = State::ready;
  unsigned mask = 0;
  unsigned long long value = 0;
  /// Where in the kernel its last exchange is: a hash of the return addresses.
  uint64_t site = 0;
};

/// What the lanes of a warp brought to their last exchange.
struct Warp {
  unsigned long long values[kWarp];
};

/// Everything of the block that runs now. Kernels run on one system thread.
struct Block {
  EmulatedThread* thread = nullptr;
  const std::function<void()>* kernel = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<char*> stacks;
  size_t current = 0;
  void* mainStack = nullptr;
  int barrierSum = 0;
  int barrierResult = 0;
  bool backwards = false;
  /// Of numbers by chance; 0: threads run in their usual order.
  uint32_t chances = 0;
};

Block block;

// Saves what a call keeps, and goes on where `to` was saved. ucontext would ask the system twice
// for each of the millions of switches.
extern "C" void emulator_switch(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
#else
#error "The emulator's fibers are written for x86-64"
#endif

/// Marsaglia, Xorshift RNGs, 2003.
unsigned chance(unsigned most) {
  uint32_t& state = block.chances;
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state % most;
}

/// As fibers.h says. Read for every block: a test may change it between kernels.
void readOrder() {
  const auto& at = block.thread->blockIdx;
  const char* const wanted = std::getenv("PERIGEE_EMULATED_ORDER");
  const std::string order = wanted == nullptr ? "" : wanted;
  block.backwards = ((at.x + at.y) % 2 == 1) != (order == "backwards");
  block.chances = static_cast<uint32_t>(std::atoi(order.c_str())) * 0x9e3779b9u;
  if (block.chances != 0) block.chances += at.x + at.y * 4096;
}

void yield() {
  Fiber& fiber = block.fibers[block.current];
  emulator_switch(&fiber.stackPointer, block.mainStack);
}

void enter() {
  (*block.kernel)();
  block.fibers[block.current].state = State::done;
  yield();
}

/// A hash of where this function's caller was called, and so on up to the thread's start. Frames are
/// linked: nothing here is compiled without frame pointers.
__attribute__((noinline)) uint64_t callSite() {
  struct Frame {
    const Frame* caller;
    uint64_t returnsTo;
  };
  uint64_t hash = 0;
  auto* frame = static_cast<const Frame*>(__builtin_frame_address(0))->caller;
  for (; frame != nullptr; frame = frame->caller) {
    hash = (hash ^ frame->returnsTo) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

void prepare(Fiber& fiber, char* stackEnd) {
  // The stack that emulator_switch expects: six registers, then where to go on. A function is
  // entered with the stack 8 bytes off a multiple of 16.
  auto** top = reinterpret_cast<void**>(stackEnd) - 1;
  *--top = reinterpret_cast<void*>(&enter);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  fiber.stackPointer = top;
}

int barrier(int value) {
  Fiber& fiber = block.fibers[block.current];
  fiber.state = State::atBarrier;
  block.barrierSum += value;
  yield();
  return block.barrierResult;
}

const unsigned long long* exchange(unsigned mask, unsigned long long value) {
  const size_t lane = block.current;
  Fiber& fiber = block.fibers[lane];
  fiber.state = State::atExchange;
  fiber.mask = mask;
  fiber.value = value;
  fiber.site = callSite();
  yield();
  // Threads that may go on do so before the next exchange of the warp is let through.
  return block.warps[lane / kWarp].values;
}

/// Lets a block go on when every thread that is left came to the barrier.
bool passBarrier() {
  bool any = false;
  for (const Fiber& fiber : block.fibers) {
    if (fiber.state == State::done) continue;
    if (fiber.state != State::atBarrier) return false;
    any = true;
  }
  if (!any) return false;
  for (Fiber& fiber : block.fibers) {
    if (fiber.state == State::atBarrier) fiber.state = State::ready;
  }
  block.barrierResult = block.barrierSum;
  block.barrierSum = 0;
  return true;
}

[[noreturn]] void fail(const char* problem) {
  const auto& at = block.thread->blockIdx;
  std::fprintf(stderr, "emulator: threads of block (%u, %u, %u) %s:", at.x, at.y, at.z, problem);
  for (const Fiber& fiber : block.fibers) {
    const char* const where = fiber.state == State::done        ? "."
                              : fiber.state == State::atBarrier ? "B"
                                                                : "w";
    std::fputs(where, stderr);
  }
  std::fputs("\n", stderr);
  std::_Exit(1);
}

/// Lets the lanes of one mask go on when all of them that are left came with the same mask. They
/// must be at the same place: on a GPU, lanes that exchange in two branches may wait for ever.
bool passExchange(size_t first) {
  const size_t end = std::min(first + kWarp, block.fibers.size());
  for (size_t i = first; i < end; ++i) {
    if (block.fibers[i].state != State::atExchange) continue;
    const unsigned mask = block.fibers[i].mask;
    bool complete = true;
    bool together = true;
    unsigned long long* const values = block.warps[first / kWarp].values;
    for (size_t j = first; j < end; ++j) {
      if ((mask >> (j - first) & 1u) == 0) continue;
      const Fiber& other = block.fibers[j];
      if (other.state == State::done) continue;
      complete &= other.state == State::atExchange && other.mask == mask;
      together &= other.site == block.fibers[i].site;
      values[j - first] = other.value;
    }
    if (!complete) continue;
    if (!together) fail("exchange in two branches");
    for (size_t j = first; j < end; ++j) {
      Fiber& other = block.fibers[j];
      if ((mask >> (j - first) & 1u) == 0 || other.state != State::atExchange) continue;
      other.state = State::ready;
    }
    return true;
  }
  return false;
}

bool release() {
  bool any = false;
  for (size_t first = 0; first < block.fibers.size(); first += kWarp) any |= passExchange(first);
  return any || passBarrier();
}

/// Runs a thread if it can go on.
bool runFiber(size_t index) {
  Fiber& fiber = block.fibers[index];
  if (fiber.state != State::ready) return false;
  block.current = index;
  block.thread->threadIdx = fiber.index;
  emulator_switch(&block.mainStack, fiber.stackPointer);
  return true;
}

/// The order of some turns: from `start` on, up or down.
struct Turns {
  size_t count;
  size_t start;
  bool down;

  size_t at(size_t turn) const {
    const size_t place = start + (down ? count - turn : turn);
    return place < count ? place : place - count;
  }
};

/// By chance, or in the usual order of this block.
Turns turnsOf(size_t count) {
  if (block.chances == 0) return {count, block.backwards ? count - 1 : 0, block.backwards};
  const size_t start = chance(count);
  return {count, start, chance(2) == 1};
}

/// Runs every lane of a warp that can go on, once.
bool runLanes(size_t first) {
  const Turns lanes = turnsOf(std::min<size_t>(kWarp, block.fibers.size() - first));
  bool any = false;
  for (size_t i = 0; i < lanes.count; ++i) any |= runFiber(first + lanes.at(i));
  return any;
}

/// Runs the warps one after another, each as far ahead of the others as may be.
bool runWarps() {
  const Turns warps = turnsOf(block.warps.size());
  bool any = false;
  for (size_t i = 0; i < warps.count; ++i) {
    const size_t first = warps.at(i) * kWarp;
    unsigned turns = block.chances == 0 ? kAhead : 1 + chance(kAheadMax);
    do {
      any |= runLanes(first);
    } while (--turns > 0 && passExchange(first));
  }
  return any;
}

bool allDone() {
  for (const Fiber& fiber : block.fibers) {
    if (fiber.state != State::done) return false;
  }
  return true;
}

}  // namespace

void runBlock(EmulatedThread& thread, const std::function<void()>& kernel) {
  const auto size = thread.blockDim;
  const size_t count = static_cast<size_t>(size.x) * size.y * size.z;
  thread.barrier = &barrier;
  thread.exchange = &exchange;
  thread.chance = [](unsigned most) { return block.chances == 0 ? 0 : chance(most); };
  block.thread = &thread;
  block.kernel = &kernel;
  block.barrierSum = 0;
  block.fibers.assign(count, Fiber());
  block.warps.assign((count + kWarp - 1) / kWarp, Warp());
  while (block.stacks.size() < count) {
    void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block.stacks.push_back(static_cast<char*>(stack));
  }
  for (size_t i = 0; i < count; ++i) {
    const auto x = static_cast<unsigned>(i % size.x);
    const auto y = static_cast<unsigned>(i / size.x % size.y);
    block.fibers[i].index = {x, y, static_cast<unsigned>(i / size.x / size.y)};
    prepare(block.fibers[i], block.stacks[i] + kStackBytes - i * kStackStep % kStackStart);
  }

  readOrder();
  while (!allDone()) {
    if (!runWarps() && !release()) fail("wait in vain");
  }
}

}  // namespace emulator
