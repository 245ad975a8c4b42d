#include "activation.h"

namespace perigee {

/// Bytes of one row, so that the TypeScript side need not know the layout.
PERIGEE_EXPORT int64_t perigee_activation_row_bytes(int32_t format, int64_t columns) {
  return ActivationLayout{static_cast<Format>(format), columns}.rowBytes();
}

}  // namespace perigee
