// What a CUDA compiler knows by itself, for a C++ compiler: included in front of a .cu file, it makes
// a module whose kernels the emulator runs thread by thread. Only what native/cuda uses is here.
#pragma once

#include <cmath>
#include <cstring>

#include "emulated-thread.h"

static EmulatedThread* emulated;

extern "C" __attribute__((visibility("default"))) void emulator_attach(EmulatedThread* thread) {
  emulated = thread;
}

#define threadIdx (emulated->threadIdx)
#define blockIdx (emulated->blockIdx)
#define blockDim (emulated->blockDim)
#define gridDim (emulated->gridDim)

#define __global__ __attribute__((visibility("default")))
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __grid_constant__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
// Blocks run one after the other, so that one copy serves them all; it keeps what the block before
// left, as shared memory does.
#define __shared__ static

struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }

template <typename To, typename From>
inline To emulatedBits(From from) {
  static_assert(sizeof(To) == sizeof(From), "one size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

inline unsigned __float_as_uint(float x) { return emulatedBits<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return emulatedBits<float>(x); }
inline int __float_as_int(float x) { return emulatedBits<int>(x); }
inline float __int_as_float(int x) { return emulatedBits<float>(x); }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline long long __double_as_longlong(double x) { return emulatedBits<long long>(x); }
inline double __longlong_as_double(long long x) { return emulatedBits<double>(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline unsigned long long __float2ull_rn(float a) {
  return static_cast<unsigned long long>(std::nearbyint(a));
}
inline float __double2float_ru(double a) {
  const float nearest = static_cast<float>(a);
  return nearest < a ? std::nextafter(nearest, HUGE_VALF) : nearest;
}
inline int __dp4a(int a, int b, int sum) {
  signed char left[4], right[4];
  std::memcpy(left, &a, sizeof(a));
  std::memcpy(right, &b, sizeof(b));
  for (int i = 0; i < 4; ++i) sum += left[i] * right[i];
  return sum;
}
inline float __frcp_rn(float a) { return 1.0f / a; }
inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
inline float __expf(float a) { return expf(a); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }

inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}
template <typename T>
inline T __ldg(const T* at) {
  return *at;
}
template <typename T>
inline T __ldcg(const T* at) {
  return *at;
}
template <typename T>
inline T __ldcs(const T* at) {
  return *at;
}
template <typename T>
inline T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
inline T max(T a, T b) {
  return a < b ? b : a;
}

inline void __syncthreads() { emulated->barrier(0); }
inline int __syncthreads_count(int value) { return emulated->barrier(value != 0); }
inline int __syncthreads_or(int value) { return emulated->barrier(value != 0) > 0; }
inline void __threadfence() {}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulated->exchange(mask, 0);
}

inline unsigned emulatedLane() { return threadIdx.x % 32; }

template <typename T>
inline T emulatedShuffle(unsigned mask, T value, int lane) {
  static_assert(sizeof(T) <= 8, "registers");
  unsigned long long bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  const unsigned long long* const lanes = emulated->exchange(mask, bits);
  T other;
  std::memcpy(&other, &lanes[lane & 31], sizeof(T));
  return other;
}
template <typename T>
inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int start = static_cast<int>(emulatedLane()) / width * width;
  return emulatedShuffle(mask, value, start + lane % width);
}
template <typename T>
inline T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = static_cast<int>(emulatedLane());
  const int other = lane ^ lanes;
  return emulatedShuffle(mask, value, other / width == lane / width ? other : lane);
}
template <typename T>
inline T __shfl_up_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = static_cast<int>(emulatedLane());
  return emulatedShuffle(mask, value, lane % width >= lanes ? lane - lanes : lane);
}
template <typename T>
inline T __shfl_down_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int lane = static_cast<int>(emulatedLane());
  return emulatedShuffle(mask, value, lane % width + lanes < width ? lane + lanes : lane);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  const unsigned long long* const lanes = emulated->exchange(mask, predicate != 0);
  unsigned ballot = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if ((mask >> lane & 1u) != 0 && lanes[lane] != 0) ballot |= 1u << lane;
  }
  return ballot;
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) == mask; }

// Threads take turns, so that plain arithmetic is atomic.
template <typename T>
inline T atomicAdd(T* at, T value) {
  const T before = *at;
  *at = before + value;
  return before;
}
template <typename T>
inline T atomicMax(T* at, T value) {
  const T before = *at;
  if (before < value) *at = value;
  return before;
}
template <typename T>
inline T atomicMin(T* at, T value) {
  const T before = *at;
  if (value < before) *at = value;
  return before;
}
template <typename T>
inline T atomicCAS(T* at, T wanted, T value) {
  const T before = *at;
  if (before == wanted) *at = value;
  return before;
}
