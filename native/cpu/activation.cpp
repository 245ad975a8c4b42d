#include "activation.h"

namespace perigee {

namespace {

struct UnpackActivationParams {
  const uint8_t* rows;
  Int format;
  Int count;
  Int columns;
};

float valueAt(const ActivationLayout& layout, const uint8_t* row, int64_t column) {
  switch (layout.format) {
    case Format::f32: return reinterpret_cast<const float*>(row)[column];
    case Format::bf16: return widenBf16(reinterpret_cast<const uint16_t*>(row)[column]);
    case Format::i8:
      return static_cast<float>(reinterpret_cast<const int8_t*>(row)[column]) *
             layout.scales(row)[column / kGroupColumns];
    case Format::q8:
      return static_cast<float>(reinterpret_cast<const int8_t*>(row)[column]) *
             layout.scales(row)[column / kBlockColumns];
  }
  return 0.0f;
}

}  // namespace

/// Bytes of one row. The TypeScript side needs this size, but not the layout.
PERIGEE_EXPORT int64_t perigee_activation_row_bytes(int32_t format, int64_t columns) {
  return ActivationLayout{static_cast<Format>(format), columns}.rowBytes();
}

/// Dequantises rows to f32: `out` is [count, columns]. For debugging and tests.
PERIGEE_EXPORT void perigee_unpack_activation(const UnpackActivationParams* params, float* out) {
  const ActivationLayout layout{formatOf(params->format), params->columns};
  for (int64_t row = 0; row < params->count; ++row) {
    const uint8_t* const from = params->rows + row * layout.rowBytes();
    for (int64_t column = 0; column < layout.columns; ++column) {
      *out++ = valueAt(layout, from, column);
    }
  }
}

}  // namespace perigee
