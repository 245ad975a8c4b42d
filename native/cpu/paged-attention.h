#pragma once

#include "attention-plan.h"

namespace perigee {

// Attention over a paged cache; see paged-attention.cpp. Encoder attention uses it too.
void attendBlocks(const AttentionJob& job);

}  // namespace perigee
