// Sizes that all packed layouts share.
#pragma once

#include "simd.h"

namespace perigee {

// Vectors per panel. With 32 registers, 4 x 128 bits or 2 x 512 bits of a panel and 12 or 6 rows of
// activations fill the register file; the 16 registers of AVX2 fit 2 vectors and 6 rows.
#if defined(__ARM_NEON)
constexpr int kPanelVectors = 4;
#else
constexpr int kPanelVectors = 2;
#endif
constexpr int kPanelRows = kPanelVectors * kLanes;

// vpdpbusd multiplies unsigned by signed bytes. So weights are stored plus 128, and the excess (128
// times the sum of the activations) is subtracted from the result.
#if defined(PERIGEE_DOT_BYTES)
constexpr int kWeightOffset = 128;
#else
constexpr int kWeightOffset = 0;
#endif

/// Without vpdpbusd, signed bytes of a panel that several tiles use are widened to 16 bits:
/// vpmaddubsw needs an unsigned operand, and so the sign of each product moved beforehand. On Zen 4
/// a tile of 4 rows multiplies 80 instead of 45 G numbers a second.
#if defined(__AVX2__) && !defined(PERIGEE_DOT_BYTES)
constexpr bool kWidensSigned = true;
#else
constexpr bool kWidensSigned = false;
#endif

/// Columns that share one scale of q8 activations, and at least one scale of quantised weights.
constexpr int64_t kBlockColumns = 32;
/// Columns of the larger blocks of files.
constexpr int64_t kSuperColumns = 256;
/// K steps of a group of 32 columns: a step is one 32-bit word, 4 columns.
constexpr int kBlockSteps = 8;

}  // namespace perigee
