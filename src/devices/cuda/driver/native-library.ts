/** The one place that opens shared libraries; tests replace it with scripted libraries. */
import koffi, { type LibraryHandle } from "koffi";

/**
 * Arguments of native calls: numbers, addresses (bigint), text, and memory that the call reads or
 * writes. A list with null in it is an output: the call replaces its elements.
 */
export type NativeValue =
  | number
  | bigint
  | string
  | null
  | ArrayBuffer
  | ArrayBufferView
  | (string | null)[]
  | readonly string[]
  | IpcHandle;

/** `CUipcMemHandle` of cuda.h, which is passed by value: 64 bytes. */
export interface IpcHandle {
  readonly reserved: Uint8Array;
}

const IPC_HANDLE_BYTES = 64;

/** Signatures name it. koffi's types are the process's: it is made once. */
koffi.struct("PerigeeIpcHandle", { reserved: koffi.array("uint8_t", IPC_HANDLE_BYTES) });

/** A bound function. Every function that this folder binds returns an `int`. */
export type NativeFunction = (...args: readonly NativeValue[]) => number;

/** A shared library that is open. */
export interface NativeLibrary {
  /** The path that it was opened by, or a name that the system's loader resolves. */
  readonly path: string;
  /** The function with this C prototype; null when the library has no function of its name. */
  bind(signature: string): NativeFunction | null;
}

/** Opens a library by path or name. Null when there is none, or when it cannot be loaded. */
export type OpenLibrary = (path: string) => NativeLibrary | null;

/** Opens libraries of this system. */
export const openSystemLibrary: OpenLibrary = (path) => {
  let handle: LibraryHandle;
  try {
    handle = koffi.load(path);
  } catch {
    return null; // Missing, for another system, or with a missing dependency: no candidate.
  }
  return {
    path,
    bind(signature) {
      try {
        // koffi's functions are untyped; the signature declares an int as the result.
        return handle.func(signature) as NativeFunction;
      } catch {
        return null; // An older version, which lacks this function.
      }
    },
  };
};

/** The address of memory that is not moved: an ArrayBuffer, which V8 keeps outside its heap. */
export function addressOf(memory: ArrayBuffer): bigint {
  return koffi.address(memory);
}

/** Native memory as bytes, without a copy; at most 4 GiB (koffi aborts the process beyond). */
export function viewOf(address: bigint, bytes: number): Uint8Array {
  return new Uint8Array(koffi.view(address, bytes));
}
