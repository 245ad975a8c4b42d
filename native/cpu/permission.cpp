// What a process must ask the system for before it may use the library's instructions: on Linux
// the tiles of AMX, whose 8 KiB a thread's saved state has no room for otherwise.
#include <cstdint>

#include "params.h"

#if defined(__AMX_TILE__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace perigee {

/// Whether the system permits it; holds for all threads of the process, and for later ones.
PERIGEE_EXPORT int32_t perigee_permit() {
#if defined(__AMX_TILE__)
  // asm/prctl.h and the processor's list of state components; older headers lack them.
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0 ? 1 : 0;
#else
  return 1;
#endif
}

}  // namespace perigee
