// Processor cores that this process may use.
#pragma once

#include <cstdint>

namespace perigee {

/// Number of physical cores allowed by the affinity mask and the container's quota; at least 1.
int availableCores();

/// Bytes of a core's second-level cache, 1 MiB where the system does not tell.
int64_t level2Bytes();

/// Bytes from where a thread reads memory, once from its beginning to its end, to where it
/// prefetches; 0: the processor's own prefetching is quicker alone.
int64_t prefetchDistance();

/// Binds the calling thread to the index-th allowed core. Has no effect where the system forbids
/// it.
void pinToCore(int index);

}  // namespace perigee
