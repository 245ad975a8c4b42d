// What a module of kernels (shim.h) and the emulator share.
#pragma once

/// What one thread of a kernel asks of the emulator. Filled by it before the thread goes on.
struct EmulatedThread {
  struct Dim3 {
    unsigned x, y, z;
  };
  Dim3 threadIdx, blockIdx, blockDim, gridDim;
  /// Waits for the block's other threads; returns how many of them passed a nonzero value.
  int (*barrier)(int value);
  /// Waits for the lanes of `mask` and returns the values [32] of all; good until the next call.
  const unsigned long long* (*exchange)(unsigned mask, unsigned long long value);
  /// A number below `most`, by chance; 0 while threads run in their usual order.
  unsigned (*chance)(unsigned most);
};
