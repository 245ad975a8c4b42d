#pragma once

#include "attention-plan.h"

namespace perigee {

// Attention over blocks; see paged-attention.cpp. Also what encoder attention runs on.
void attendBlocks(const AttentionJob& job);

}  // namespace perigee
