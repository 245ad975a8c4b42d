// An emulated cuBLASLt: the products that src/devices/cuda/products/matmul.ts asks for, by the definition.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "work-queue.h"

#define API extern "C" __attribute__((visibility("default"))) int

namespace {

constexpr int kF32 = 0, kF16 = 2, kBf16 = 14;
constexpr int kInvalid = 7, kNotSupported = 15;
constexpr int kTransA = 3, kTransB = 4, kEpilogue = 7, kBias = 8;

struct Description {
  int compute, scaleType;
  int transA = 0, transB = 0, epilogue = 1;
  uint64_t bias = 0;
};

struct Layout {
  int type;
  uint64_t rows, columns;
  int64_t stride;
};

float fromBf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Element (row, column) of a matrix whose columns are contiguous.
float load(uint64_t address, const Layout& layout, uint64_t row, uint64_t column) {
  const uint64_t at = column * static_cast<uint64_t>(layout.stride) + row;
  if (layout.type == kF32) return reinterpret_cast<const float*>(address)[at];
  return fromBf16(reinterpret_cast<const uint16_t*>(address)[at]);
}

void store(uint64_t address, const Layout& layout, uint64_t row, uint64_t column, float value) {
  const uint64_t at = column * static_cast<uint64_t>(layout.stride) + row;
  if (layout.type == kF32) reinterpret_cast<float*>(address)[at] = value;
  else reinterpret_cast<uint16_t*>(address)[at] = toBf16(value);
}

float finishValue(int epilogue, float value) {
  if ((epilogue & 2) != 0) return value > 0 ? value : 0;
  if ((epilogue & 32) == 0) return value;
  return 0.5f * value * (1 + std::tanh(0.79788456f * (value + 0.044715f * value * value * value)));
}

bool fits(const Description& description, const Layout& a, const Layout& b, const Layout& d) {
  const bool types = a.type == b.type && a.type != kF16 && b.type != kF16 &&
                     (a.type == kF32 || a.type == kBf16) && (d.type == kF32 || d.type == kBf16);
  return types && description.transA == 1 && description.transB == 0 && a.rows == b.rows &&
         d.rows == a.columns && d.columns == b.columns;
}

}  // namespace

API cublasLtGetVersion() { return 130100; }
API cublasLtCreate(void** handle) { return *handle = new int, 0; }
API cublasLtDestroy(void*) { return 0; }
API cublasLtMatmulDescCreate(Description** description, int compute, int scaleType) {
  return *description = new Description{compute, scaleType}, 0;
}
API cublasLtMatmulDescDestroy(Description* description) { return delete description, 0; }
API cublasLtMatmulDescSetAttribute(Description* description, int attribute, const void* value,
                                   size_t bytes) {
  if (bytes != (attribute == kBias || attribute >= 17 ? 8u : 4u)) return kInvalid;
  if (attribute == kTransA) std::memcpy(&description->transA, value, 4);
  if (attribute == kTransB) std::memcpy(&description->transB, value, 4);
  if (attribute == kEpilogue) std::memcpy(&description->epilogue, value, 4);
  if (attribute == kBias) std::memcpy(&description->bias, value, 8);
  return 0;
}
API cublasLtMatrixLayoutCreate(Layout** layout, int type, uint64_t rows, uint64_t columns,
                               int64_t stride) {
  return *layout = new Layout{type, rows, columns, stride}, 0;
}
API cublasLtMatrixLayoutDestroy(Layout* layout) { return delete layout, 0; }
API cublasLtMatmulPreferenceCreate(void** preference) { return *preference = new int, 0; }
API cublasLtMatmulPreferenceDestroy(void*) { return 0; }
API cublasLtMatmulPreferenceSetAttribute(void*, int, const void*, size_t) { return 0; }
API cublasLtMatmulAlgoGetHeuristic(void*, Description* description, Layout* a, Layout* b, Layout*,
                                   Layout* d, void*, int requested, char* results, int* found) {
  *found = 0;
  if (!fits(*description, *a, *b, *d)) return kNotSupported;
  *found = requested > 2 ? 2 : requested;
  std::memset(results, 0, static_cast<size_t>(*found) * 96);
  return 0;
}
API cublasLtMatmulAlgoCheck(void*, Description* description, Layout* a, Layout* b, Layout*,
                            Layout* d, const void*, char* result) {
  std::memset(result, 0, 96);
  return fits(*description, *a, *b, *d) ? 0 : kNotSupported;
}
API cublasLtMatmul(void*, Description* description, const float* alpha, uint64_t a, Layout* aLayout,
                   uint64_t b, Layout* bLayout, const float* beta, uint64_t c, Layout* cLayout,
                   uint64_t d, Layout* dLayout, const void* algorithm, uint64_t, size_t,
                   void* stream) {
  if (algorithm == nullptr || !fits(*description, *aLayout, *bLayout, *dLayout)) return kInvalid;
  emulator::enqueue(stream, [=, how = *description, la = *aLayout, lb = *bLayout, lc = *cLayout,
                             ld = *dLayout, scale = *alpha, keep = *beta] {
    for (uint64_t column = 0; column < ld.columns; ++column) {
      for (uint64_t row = 0; row < ld.rows; ++row) {
        float sum = 0;
        for (uint64_t k = 0; k < la.rows; ++k) sum += load(a, la, k, row) * load(b, lb, k, column);
        float value = scale * sum + (keep != 0 ? keep * load(c, lc, row, column) : 0);
        if ((how.epilogue & 4) != 0) value += load(how.bias, {ld.type, ld.rows, 1, 0}, row, 0);
        store(d, ld, row, column, finishValue(how.epilogue, value));
      }
    }
  });
  return 0;
}
