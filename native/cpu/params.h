// Argument passing from TypeScript: one pointer to a struct of 8-byte fields.
//
// A field is a pointer, an Int or a Float. Both number types are passed as doubles, so that the
// caller can fill the struct in order without knowing the field types (src/devices/cpu/params.ts).
#pragma once

#include <cstdint>

#define PERIGEE_EXPORT extern "C" __attribute__((visibility("default")))

namespace perigee {

class Int {
 public:
  operator int64_t() const { return static_cast<int64_t>(value_); }

 private:
  double value_;
};

class Float {
 public:
  operator float() const { return static_cast<float>(value_); }

 private:
  double value_;
};

static_assert(sizeof(Int) == 8 && sizeof(Float) == 8 && sizeof(void*) == 8, "8-byte fields");

/// Same order as FORMATS in src/devices/cpu/handles.ts.
enum class Format : int64_t { f32 = 0, bf16 = 1, i8 = 2, q8 = 3 };

inline Format formatOf(const Int& code) { return static_cast<Format>(static_cast<int64_t>(code)); }

/// Element types of files and of KV pools; same order as ELEMENTS in src/devices/cpu/handles.ts.
enum class Element : int64_t { f32 = 0, f16 = 1, bf16 = 2, i8 = 3, fp8 = 4 };

inline Element elementOf(const Int& code) {
  return static_cast<Element>(static_cast<int64_t>(code));
}

}  // namespace perigee
