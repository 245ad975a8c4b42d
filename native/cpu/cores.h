// Processor cores that this process may use.
#pragma once

namespace perigee {

/// Number of physical cores allowed by the affinity mask and the container's quota; at least 1.
int availableCores();

/// Binds the calling thread to the index-th allowed core. Has no effect where the system forbids
/// it.
void pinToCore(int index);

}  // namespace perigee
