/*
 * LD_PRELOAD: a clock that is set while a process runs. Wall clocks are ahead by the milliseconds
 * that the file of PERIGEE_TEST_CLOCK holds, an int64 in this machine's order; monotonic clocks go
 * on. The kernel is asked directly: the C library's own functions are those that are replaced.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none = 0;
static const volatile int64_t *ahead_ms = &none;

__attribute__((constructor)) static void open_file(void) {
  const char *path = getenv("PERIGEE_TEST_CLOCK");
  const int file = path == NULL ? -1 : open(path, O_RDONLY);
  if (file < 0) return;
  void *map = mmap(NULL, sizeof(int64_t), PROT_READ, MAP_SHARED, file, 0);
  if (map != MAP_FAILED) ahead_ms = map;
  close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  const int failure = (int)syscall(SYS_clock_gettime, clock, now);
  const int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  if (failure == 0 && is_wall) now->tv_sec += *ahead_ms / 1000;
  return failure;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone;
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *seconds) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (seconds != NULL) *seconds = now.tv_sec;
  return now.tv_sec;
}
