// The emulator's native/cuda/warpgroup-products.h: every thread computes its own sums when a
// product is started, with operands found in shared memory as their descriptors say. It reads
// descriptors by PTX's definition of the layouts, not by the code that makes them.
#pragma once

#include "hopper.h"
#include "numbers.h"

namespace perigee {

inline void openProducts() {}
inline void closeProducts() {}
template <int kGroups>
inline void waitProducts() {}
template <typename T>
inline void pinRegisters(T&) {}

inline void computeFirst(float) {}

struct EmulatedOperand {
  uint32_t start;
  uint32_t leading;
  uint32_t stride;

  explicit EmulatedOperand(uint64_t descriptor)
      : start(static_cast<uint32_t>(descriptor & 0x3fff) << 4),
        leading(static_cast<uint32_t>(descriptor >> 16 & 0x3fff) << 4),
        stride(static_cast<uint32_t>(descriptor >> 32 & 0x3fff) << 4) {
    if (descriptor >> 62 != 1) refuseToRun();
  }

  /// K-major: 8 rows of 128 bytes are a group, `stride` bytes from the next 8.
  uint16_t alongRows(int row, int k) const {
    return at(start + static_cast<uint32_t>(row / 8) * stride + row % 8 * 128 + k * 2);
  }

  /// MN-major: 64 columns by 8 k are a group, `leading` bytes from the next 64 columns and `stride`
  /// from the next 8 k.
  uint16_t acrossRows(int column, int k) const {
    return at(start + column / 64 * leading + k / 8 * stride + k % 8 * 128 + column % 64 * 2);
  }

 private:
  static uint16_t at(uint32_t address) {
    address ^= (address >> 7 & 7) << 4;
    uint16_t bits;
    std::memcpy(&bits, sharedPlace(address), sizeof(bits));
    return bits;
  }
};

template <typename T>
struct WarpgroupProducts {
  static void ofShared(float (&sums)[64], uint64_t a, uint64_t b, bool adds) {
    const EmulatedOperand left(a), right(b);
    for (int i = 0; i < 64; ++i) {
      float sum = adds ? sums[i] : 0.0f;
      for (int k = 0; k < 16; ++k) {
        sum += number(left.alongRows(row(i), k)) * number(right.alongRows(column(i), k));
      }
      sums[i] = sum;
    }
  }

  template <int kCount>
  static void ofRegisters(float (&sums)[kCount], const uint32_t (&a)[4], uint64_t b) {
    unsigned long long lanes[4][32];
    for (int i = 0; i < 4; ++i) {
      std::memcpy(lanes[i], emulated->exchange(0xffffffffu, a[i]), sizeof(lanes[i]));
    }
    const EmulatedOperand right(b);
    for (int i = 0; i < kCount; ++i) {
      for (int k = 0; k < 16; ++k) {
        // Registers 0 and 1 are of rows g and g + 8, 2 and 3 the same for k from 8 on.
        const int lane = static_cast<int>(emulatedLane()) / 4 * 4 + k % 8 / 2;
        const auto bits = lanes[k / 8 * 2 + i % 4 / 2][lane] >> (k % 2 * 16);
        sums[i] += number(static_cast<uint16_t>(bits)) * number(right.acrossRows(column(i), k));
      }
    }
  }

  static uint32_t pair(float low, float high) {
    return bits(low) | static_cast<uint32_t>(bits(high)) << 16;
  }

 private:
  static int row(int i) {
    const int warp = static_cast<int>(threadIdx.x) % kWarpgroup / 32;
    return 16 * warp + static_cast<int>(emulatedLane()) / 4 + i % 4 / 2 * 8;
  }
  static int column(int i) { return i / 4 * 8 + static_cast<int>(emulatedLane()) % 4 * 2 + i % 2; }
  static float number(uint16_t bits) { return widen(T{bits}); }
  static uint16_t bits(float value);
};

template <>
inline uint16_t WarpgroupProducts<Bf16>::bits(float value) {
  return bf16FromFloat(value);
}
template <>
inline uint16_t WarpgroupProducts<F16>::bits(float value) {
  return f16FromFloat(value);
}

inline float powerOfTwo(float x) { return exp2f(x); }

}  // namespace perigee
