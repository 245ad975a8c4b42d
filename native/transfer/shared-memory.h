// Memory that other processes of this machine may map, for reading, if they are told of it.
#pragma once
#include <cstdint>

namespace perigee {

// Returns the descriptor, or -1; its size can never change.
int createShared(const char* name, int64_t bytes, void** address);

// Maps what another process calls `name`; null if there is no such thing, or if it may shrink.
void* mapShared(int pid, int fd, const char* name, int64_t bytes);

// Maps a descriptor that this process inherited, to read and write; null if it has fewer bytes.
void* mapInherited(int fd, int64_t bytes);

}  // namespace perigee
