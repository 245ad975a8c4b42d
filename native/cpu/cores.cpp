#include "cores.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "params.h"

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace perigee {

#if defined(__linux__)
namespace {

long readNumber(const std::string& path, long missing) {
  long value = missing;
  if (std::FILE* file = std::fopen(path.c_str(), "r")) {
    if (std::fscanf(file, "%ld", &value) != 1) value = missing;
    std::fclose(file);
  }
  return value;
}

/// Whole cores that the cgroup quota grants (version 2, then 1); `unlimited` without a quota.
int quotaCores(int unlimited) {
  long quota = -1, period = 0;
  if (std::FILE* file = std::fopen("/sys/fs/cgroup/cpu.max", "r")) {
    if (std::fscanf(file, "%ld %ld", &quota, &period) != 2) quota = -1;
    std::fclose(file);
  } else {
    quota = readNumber("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", -1);
    period = readNumber("/sys/fs/cgroup/cpu/cpu.cfs_period_us", 0);
  }
  if (quota <= 0 || period <= 0) return unlimited;
  return static_cast<int>((quota + period - 1) / period);
}

/// One logical processor per physical core of the affinity mask: the second hyperthread of a core
/// shares its vector units and would only add contention.
std::vector<int> allowedCores() {
  std::vector<int> cores;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) return {0};
  std::set<std::pair<long, long>> seen;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &mask)) continue;
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const long package = readNumber(topology + "physical_package_id", 0);
    const long core = readNumber(topology + "core_id", cpu);
    if (seen.emplace(package, core).second) cores.push_back(cpu);
  }
  return cores;
}

}  // namespace

int availableCores() {
  const int cores = static_cast<int>(allowedCores().size());
  return std::max(1, std::min(cores, quotaCores(cores)));
}

void pinToCore(int index) {
  // Computed once, before threads are pinned: a pinned thread's mask holds only its own core.
  static const std::vector<int> cores = allowedCores();
  if (index >= static_cast<int>(cores.size())) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  CPU_SET(cores[static_cast<size_t>(index)], &mask);
  pthread_setaffinity_np(pthread_self(), sizeof mask, &mask);
}
#else
int availableCores() {
#if defined(__APPLE__)
  // Performance cores only: an op takes as long as its slowest thread.
  int32_t cores = 0;
  size_t size = sizeof cores;
  if (sysctlbyname("hw.perflevel0.physicalcpu", &cores, &size, nullptr, 0) == 0 && cores > 0) {
    return cores;
  }
#endif
  return 1;
}

void pinToCore(int) {}
#endif

int64_t level2Bytes() {
  constexpr int64_t usual = 1 << 20;
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const int64_t told = sysconf(_SC_LEVEL2_CACHE_SIZE);
  // A virtual machine may say anything.
  if (told > 0) return std::clamp<int64_t>(told, usual / 4, usual * 4);
#endif
  return usual;
}

int64_t prefetchDistance() {
#if defined(__x86_64__)
  // On 8 threads of an Intel Xeon with AMX one row of Q4_0 is read at 82 GB/s instead of 53; on two
  // of AMD's Zen 4 it would be 32 instead of 35.
  static const bool isIntel = __builtin_cpu_is("intel") != 0;
  if (isIntel) return 8192;
#endif
  return 0;
}

PERIGEE_EXPORT int32_t perigee_core_count() { return availableCores(); }

}  // namespace perigee
