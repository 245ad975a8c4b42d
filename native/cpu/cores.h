// Which processor cores this process may use.
#pragma once

namespace perigee {

/// Physical cores allowed by affinity and by the container's quota; at least 1.
int availableCores();

/// Binds the calling thread to the index-th allowed core. Does nothing where that cannot be done.
void pinToCore(int index);

}  // namespace perigee
