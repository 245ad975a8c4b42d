// What GCC's static run-time libraries take from newer versions of glibc than the oldest that our
// prebuilt libraries run on (tools/native/old-glibc.mjs). Linked into those alone, and hidden.
// Checked: tools/build-native.mjs --portable looks at symbols, tools/try-install.mjs runs it all.
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

// No header of glibc is included that declares what is defined here.
#define HIDDEN __attribute__((visibility("hidden")))

extern "C" {
long syscall(long number, ...);

struct stat;

// glibc 2.32. False: libstdc++ counts references atomically, as with older versions of glibc.
HIDDEN extern char __libc_single_threaded;
HIDDEN char __libc_single_threaded = 0;

// glibc 2.35, asked by libgcc's unwinder, which then goes through the loaded objects itself.
HIDDEN int _dl_find_object(void*, void*) { return -1; }

// glibc 2.36, taken by std::random_device.
HIDDEN uint32_t arc4random() {
  uint32_t word = 0;
  auto* bytes = reinterpret_cast<unsigned char*>(&word);
  for (size_t done = 0; done < sizeof word;) {
    const long got = syscall(SYS_getrandom, bytes + done, sizeof word - done, 0);
    if (got > 0) done += static_cast<size_t>(got);
  }
  return word;
}

// glibc 2.33; before, a header's inline function. The kernel fills the same struct on our systems.
HIDDEN int fstat(int fd, struct stat* into) {
  return static_cast<int>(syscall(SYS_fstat, fd, into));
}

// glibc 2.30.
HIDDEN int gettid() { return static_cast<int>(syscall(SYS_gettid)); }
}  // extern "C"
