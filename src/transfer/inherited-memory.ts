/**
 * Memory of a process and of one that it starts, which inherits the descriptor: it has no name by
 * which others find it, and no network is told of it.
 */
import { randomBytes } from "node:crypto";
import { assert } from "#base";
import { type TransferLibrary, transferLibrary } from "./native/library.ts";

export interface InheritedMemory {
  /** To be inherited by the process that is started. */
  readonly fd: number;
  readonly bytes: number;
  /** At most 4 GiB from byte `start` on. Not to be looked at once it was released. */
  view(start: number, bytes: number): Uint8Array;
  release(): void;
}

const NAME_BYTES = 16;
/** koffi.view takes no more. */
const VIEW_BYTES_MAX = 2 ** 32;

/** Null: it cannot be had here. */
export function createInherited(bytes: number): InheritedMemory | null {
  const library = transferLibrary();
  if (library === null) return null;
  const address = new BigUint64Array(1);
  const name = `perigee-${randomBytes(NAME_BYTES).toString("hex")}`;
  const fd = library.createShared(name, bytes, address);
  if (fd < 0) return null;
  return memoryOf(library, { address: Number(address[0]), bytes, fd, isOwn: true });
}

/** Maps what another process created. Null: there are fewer bytes, or it cannot be had here. */
export function mapInherited(fd: number, bytes: number): InheritedMemory | null {
  const library = transferLibrary();
  const address = library?.mapInherited(fd, bytes) ?? 0;
  if (library === null || address === 0) return null;
  return memoryOf(library, { address, bytes, fd, isOwn: false });
}

interface Mapping {
  readonly address: number;
  readonly bytes: number;
  readonly fd: number;
  /** The descriptor is closed with the memory. */
  readonly isOwn: boolean;
}

function memoryOf(
  library: TransferLibrary,
  { address, bytes, fd, isOwn }: Mapping,
): InheritedMemory {
  let isThere = true;
  return {
    ...{ fd, bytes },
    view(start, length) {
      const fits = start >= 0 && length > 0 && length <= VIEW_BYTES_MAX && start + length <= bytes;
      assert(isThere && fits, `Cannot view ${length} bytes from ${start} on of ${bytes}`);
      return new Uint8Array(library.view(address + start, length));
    },
    release() {
      if (!isThere) return;
      isThere = false;
      library.releaseShared(address, bytes, isOwn ? fd : -1);
    },
  };
}
