import koffi, { type LibraryHandle } from "koffi";

const PROT_READ = 1;
const MAP_PRIVATE = 2;
const MADV_DONTNEED = 4;
/** Result of a failed mmap, as an unsigned address. */
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/** The parts of the system's memory mapping that reading model files needs. */
export interface MemoryMap {
  /** Maps a whole file read-only. Null where the system refuses, e.g. on some network disks. */
  map(descriptor: number, sizeBytes: number): bigint | null;
  unmap(address: bigint, sizeBytes: number): void;
  /** Drops whole pages from memory; the address must lie on a page boundary. */
  discard(address: bigint, sizeBytes: number): void;
  /** Memory as bytes, without a copy. koffi aborts the process above some GiB: view slices. */
  view(address: bigint, sizeBytes: number): ArrayBuffer;
}

let loaded: MemoryMap | null | undefined;

/**
 * The C library of the running process (glibc, musl, libSystem), so that no file name is guessed.
 * Null on systems without mmap; callers read files instead.
 */
export function systemMemoryMap(): MemoryMap | null {
  if (loaded === undefined) loaded = process.platform === "win32" ? null : load();
  return loaded;
}

function load(): MemoryMap | null {
  let library: LibraryHandle;
  try {
    library = koffi.load(null);
  } catch {
    return null; // An unusual libc: positioned reads do the same work, with a copy.
  }
  const mmap = library.func(
    "void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)",
  );
  const munmap = library.func("int munmap(void *address, size_t length)");
  const madvise = library.func("int madvise(void *address, size_t length, int advice)");
  return {
    map(descriptor, sizeBytes) {
      // koffi's functions are untyped; a pointer arrives as a bigint (doc/pointers.md).
      const address = mmap(null, sizeBytes, PROT_READ, MAP_PRIVATE, descriptor, 0) as bigint | null;
      return address === null || address === MAP_FAILED ? null : address;
    },
    unmap: (address, sizeBytes) => void munmap(address, sizeBytes),
    discard: (address, sizeBytes) => void madvise(address, sizeBytes, MADV_DONTNEED),
    view: (address, sizeBytes) => koffi.view(address, sizeBytes),
  };
}
