// CRC32C by the processor's instruction, three streams at a time: the instruction answers after
// three cycles and one can begin in each. The streams are joined by multiplying with x^(8n) modulo
// the polynomial (Gopal et al., Fast CRC Computation for iSCSI Polynomial, 2011).
#include "crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

namespace perigee {
namespace {

constexpr uint32_t kPolynomial = 0x82f63b78;  // reflected

constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kPolynomial : 0);
    table[byte] = crc;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kTable = makeTable();

uint64_t wordAt(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

#if defined(__x86_64__)

// Bytes of one of the three streams: long enough that joining is cheap.
constexpr size_t kStream = 1024;

// The next three streams are fetched while these are computed: of memory that is in no cache it
// takes 11 GB/s then instead of 5.5 (Intel Xeon, 2026-11-26).
constexpr size_t kLine = 64;
constexpr size_t kAhead = 3 * kStream;

// Of three lines: of what lies behind the memory nothing is read.
inline void prefetch(const uint8_t* at) {
  const auto* lines = reinterpret_cast<const char*>(at);
  for (size_t line = 0; line < 3 * kLine; line += kLine) _mm_prefetch(lines + line, _MM_HINT_T0);
}

// x^power modulo the polynomial, reflected: bit 31 is x^0.
constexpr uint32_t powerOfX(int power) {
  uint32_t value = 0x80000000;
  for (int i = 0; i < power; ++i) value = (value >> 1) ^ ((value & 1) ? kPolynomial : 0);
  return value;
}
// A product of reflected numbers is one bit low, and crc32 itself multiplies by x^32.
constexpr uint32_t kOneStream = powerOfX(8 * int(kStream) - 33);
constexpr uint32_t kTwoStreams = powerOfX(16 * int(kStream) - 33);

__attribute__((target("sse4.2,pclmul"))) uint32_t advance(uint64_t crc, uint32_t by) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(int64_t(crc)),
                                               _mm_cvtsi64_si128(int64_t(uint64_t(by))), 0);
  return uint32_t(_mm_crc32_u64(0, uint64_t(_mm_cvtsi128_si64(product))));
}

__attribute__((target("sse4.2,pclmul"))) uint32_t crcByInstruction(const uint8_t* at, size_t bytes,
                                                                   uint32_t seed) {
  uint64_t crc = ~seed;
  for (; bytes >= 3 * kStream; bytes -= 3 * kStream, at += 3 * kStream) {
    uint64_t second = 0, third = 0;
    for (size_t line = 0; line < kStream; line += kLine) {
      prefetch(at + kAhead + 3 * line);
      for (size_t i = line; i < line + kLine; i += 8) {
        crc = _mm_crc32_u64(crc, wordAt(at + i));
        second = _mm_crc32_u64(second, wordAt(at + kStream + i));
        third = _mm_crc32_u64(third, wordAt(at + 2 * kStream + i));
      }
    }
    crc = advance(crc, kTwoStreams) ^ advance(second, kOneStream) ^ third;
  }
  for (; bytes >= 8; bytes -= 8, at += 8) crc = _mm_crc32_u64(crc, wordAt(at));
  for (; bytes > 0; --bytes, ++at) crc = _mm_crc32_u8(uint32_t(crc), *at);
  return ~uint32_t(crc);
}

bool hasInstruction() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)

uint32_t crcByInstruction(const uint8_t* at, size_t bytes, uint32_t seed) {
  uint32_t crc = ~seed;
  for (; bytes >= 8; bytes -= 8, at += 8) crc = __crc32cd(crc, wordAt(at));
  for (; bytes > 0; --bytes, ++at) crc = __crc32cb(crc, *at);
  return ~crc;
}

bool hasInstruction() { return true; }

#else

uint32_t crcByInstruction(const uint8_t* at, size_t bytes, uint32_t seed) {
  return crc32cPlain(at, bytes, seed);
}

bool hasInstruction() { return false; }

#endif

}  // namespace

uint32_t crc32cPlain(const void* data, size_t bytes, uint32_t seed) {
  const auto* at = static_cast<const uint8_t*>(data);
  uint32_t crc = ~seed;
  for (; bytes > 0; --bytes, ++at) crc = (crc >> 8) ^ kTable[(crc ^ *at) & 255];
  return ~crc;
}

uint32_t crc32c(const void* data, size_t bytes, uint32_t seed) {
  static const bool fast = hasInstruction();
  if (!fast) return crc32cPlain(data, bytes, seed);
  return crcByInstruction(static_cast<const uint8_t*>(data), bytes, seed);
}

}  // namespace perigee
