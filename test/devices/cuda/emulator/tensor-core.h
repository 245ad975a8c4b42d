// The emulator's native/cuda/tensor-core.h: the same product, lane by lane.
#pragma once

namespace perigee {

inline float emulatedHalf(unsigned long long pair, int which) {
  return __uint_as_float(static_cast<unsigned>(pair >> (16 * which)) << 16);
}

inline void multiplyAdd(float (&sum)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
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
      const float x = emulatedHalf(rows[k / 8][group * 4 + lane], k % 2);
      sum[j] += x * emulatedHalf(columns[k / 8][column * 4 + lane], k % 2);
    }
  }
}

}  // namespace perigee
