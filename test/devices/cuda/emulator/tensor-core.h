// The emulator's native/cuda/tensor-core.h: the same products and copies, lane by lane.
#pragma once

#include <vector>

#include "numbers.h"

namespace perigee {

inline unsigned short emulatedHalf(unsigned long long pair, int which) {
  return static_cast<unsigned short>(pair >> (16 * which));
}

template <typename Half>
inline void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2], Half) {
  // Two registers of every lane at once: [pair of k][lane].
  unsigned long long upper[2][32], lower[2][32], columns[2][32];
  for (int i = 0; i < 2; ++i) {
    const auto keep = [](unsigned long long (&to)[32], unsigned value) {
      std::memcpy(to, emulated->exchange(0xffffffffu, value), sizeof(to));
    };
    keep(upper[i], a[2 * i]);
    keep(lower[i], a[2 * i + 1]);
    keep(columns[i], b[i]);
  }
  const int group = static_cast<int>(emulatedLane()) / 4;
  const int part = static_cast<int>(emulatedLane()) % 4;
  for (int j = 0; j < 4; ++j) {
    const auto& rows = j < 2 ? upper : lower;
    const int column = 2 * part + j % 2;
    for (int k = 0; k < 16; ++k) {
      const int lane = k % 8 / 2;
      const float x = widen(Half{emulatedHalf(rows[k / 8][group * 4 + lane], k % 2)});
      sum[j] += x * widen(Half{emulatedHalf(columns[k / 8][column * 4 + lane], k % 2)});
    }
  }
}

inline void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  multiplyAdd(sum, a, b, Bf16{});
}

inline void multiplyAddS8(int (&sum)[4], const unsigned (&a)[2], unsigned b, int begin) {
  unsigned long long upper[32], lower[32], columns[32];
  const auto keep = [](unsigned long long (&to)[32], unsigned value) {
    std::memcpy(to, emulated->exchange(0xffffffffu, value), sizeof(to));
  };
  keep(upper, a[0]);
  keep(lower, a[1]);
  keep(columns, b);
  const int group = static_cast<int>(emulatedLane()) / 4;
  const int part = static_cast<int>(emulatedLane()) % 4;
  const auto byteAt = [](unsigned long long four, int which) -> int {
    return static_cast<signed char>(four >> (8 * which));
  };
  for (int j = 0; j < 4; ++j) {
    const auto& rows = j < 2 ? upper : lower;
    const int column = 2 * part + j % 2;
    sum[j] = begin;
    for (int k = 0; k < 16; ++k) {
      sum[j] += byteAt(rows[group * 4 + k / 4], k % 4) * byteAt(columns[column * 4 + k / 4], k % 4);
    }
  }
}

inline unsigned packPair(float lower, float upper, Bf16) {
  return bf16FromFloat(lower) | static_cast<unsigned>(bf16FromFloat(upper)) << 16;
}

inline unsigned packPair(float lower, float upper, F16) {
  return f16FromFloat(lower) | static_cast<unsigned>(f16FromFloat(upper)) << 16;
}

inline float powerOfTwo(float x) { return exp2f(x); }

inline unsigned transposeMatrix(unsigned pair) {
  const unsigned long long* const rows = emulated->exchange(0xffffffffu, pair);
  const int lane = static_cast<int>(emulatedLane());
  const auto half = [&](int row) -> unsigned {
    return rows[row * 4 + lane / 8] >> (16 * (lane / 4 % 2)) & 0xffffu;
  };
  return half(lane % 4 * 2) | half(lane % 4 * 2 + 1) << 16;
}

inline unsigned multiplyAddPair(unsigned a, unsigned b, unsigned c) {
  const auto half = [](unsigned pair, int which) {
    return widen(Bf16{static_cast<unsigned short>(pair >> (16 * which))});
  };
  const auto sum = [&](int which) -> unsigned {
    return bf16FromFloat(fmaf(half(a, which), half(b, which), half(c, which)));
  };
  return sum(0) | sum(1) << 16;
}

using SharedAddress = unsigned long long;

inline SharedAddress sharedAddress(const void* shared) {
  return reinterpret_cast<SharedAddress>(shared);
}

inline void loadMatrix(unsigned (&to)[4], SharedAddress row) {
  const unsigned long long* const rows = emulated->exchange(0xffffffffu, row);
  const int lane = static_cast<int>(emulatedLane());
  for (int i = 0; i < 4; ++i) {
    to[i] = reinterpret_cast<const unsigned*>(rows[i * 8 + lane / 4])[lane % 4];
  }
}

inline void loadMatrixTransposed(unsigned (&to)[4], SharedAddress row) {
  const unsigned long long* const rows = emulated->exchange(0xffffffffu, row);
  const int lane = static_cast<int>(emulatedLane());
  const auto half = [&](int matrix, int at) -> unsigned {
    return reinterpret_cast<const unsigned short*>(rows[matrix * 8 + at])[lane / 4];
  };
  for (int i = 0; i < 4; ++i) {
    to[i] = half(i, lane % 4 * 2) | half(i, lane % 4 * 2 + 1) << 16;
  }
}

struct EmulatedCopy {
  SharedAddress to;
  const void* from;
  int bytes;
  unsigned group;

  void carryOut() const {
    auto* const shared = reinterpret_cast<unsigned char*>(to);
    std::memset(shared, 0, 16);
    std::memcpy(shared, from, static_cast<unsigned>(bytes));
  }
};

/// Copies that a thread began and that are not done.
struct EmulatedCopies {
  std::vector<EmulatedCopy> late;
  unsigned groups = 0;
};
inline EmulatedCopies& emulatedCopies() {
  static EmulatedCopies threads[1024];
  return threads[(threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x];
}

// At once, or where threads run in an order by chance (fibers.h), as late as the waits allow.
inline void copyAsync(SharedAddress to, const void* from, int bytes = 16) {
  EmulatedCopies& copies = emulatedCopies();
  const EmulatedCopy copy = {to, from, bytes, copies.groups};
  if (emulated->chance(2) == 0) {
    copy.carryOut();
  } else {
    copies.late.push_back(copy);
  }
}

inline void commitCopies() { ++emulatedCopies().groups; }

template <int kPending>
inline void waitCopies() {
  EmulatedCopies& copies = emulatedCopies();
  std::vector<EmulatedCopy> left;
  for (const EmulatedCopy& copy : copies.late) {
    if (copy.group + kPending < copies.groups) {
      copy.carryOut();
    } else {
      left.push_back(copy);
    }
  }
  copies.late.swap(left);
}

}  // namespace perigee
