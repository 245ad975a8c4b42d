#include "shared-memory.h"

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace perigee {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// The link of a descriptor names what it is: the same name here and there is the same memory.
bool hasName(const char* path, const char* name) {
  char link[256];
  const ssize_t length = readlink(path, link, sizeof link - 1);
  if (length <= 0) return false;
  link[length] = 0;
  return std::string(link) == std::string("/memfd:") + name + " (deleted)";
}

}  // namespace

int createShared(const char* name, int64_t bytes, void** address) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, bytes) != 0 || fcntl(fd, F_ADD_SEALS, kSeals) != 0) {
    close(fd);
    return -1;
  }
  *address = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (*address != MAP_FAILED) return fd;
  close(fd);
  return -1;
}

// Without the seals the other process could shrink the memory, and reading it would end this one.
void* mapShared(int pid, int fd, const char* name, int64_t bytes) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", pid, fd);
  if (!hasName(path, name)) return nullptr;
  const int own = open(path, O_RDONLY | O_CLOEXEC);
  if (own < 0) return nullptr;
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", own);
  struct stat info{};
  const bool sound = hasName(path, name) && fstat(own, &info) == 0 && info.st_size == bytes &&
                     (fcntl(own, F_GET_SEALS) & kSeals) == kSeals;
  void* address = sound ? mmap(nullptr, size_t(bytes), PROT_READ, MAP_SHARED, own, 0) : MAP_FAILED;
  close(own);
  return address == MAP_FAILED ? nullptr : address;
}

void* mapInherited(int fd, int64_t bytes) {
  struct stat info{};
  if (fstat(fd, &info) != 0 || info.st_size < bytes) return nullptr;
  void* address = mmap(nullptr, size_t(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return address == MAP_FAILED ? nullptr : address;
}

}  // namespace perigee

#else

namespace perigee {

int createShared(const char*, int64_t, void**) { return -1; }
void* mapShared(int, int, const char*, int64_t) { return nullptr; }
void* mapInherited(int, int64_t) { return nullptr; }

}  // namespace perigee

#endif
