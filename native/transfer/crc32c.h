// CRC32C (Castagnoli): what each slice of a piece carries.
#pragma once
#include <cstddef>
#include <cstdint>

namespace perigee {

uint32_t crc32c(const void* data, size_t bytes, uint32_t seed = 0);

// The same without instructions of the processor: the definition, and the fallback.
uint32_t crc32cPlain(const void* data, size_t bytes, uint32_t seed = 0);

}  // namespace perigee
