/** The one place that opens shared libraries; tests put scripted libraries in its stead. */
import koffi, { type LibraryHandle } from "koffi";

/**
 * What crosses to native code: numbers, addresses (bigint), text, and memory that the call reads or
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
  | readonly string[];

/** A bound function. Every function that this folder binds returns an `int`. */
export type NativeFunction = (...args: readonly NativeValue[]) => number;

/** A shared library that is open. */
export interface NativeLibrary {
  /** What it was opened by: a path, or a name that the system's loader knows. */
  readonly path: string;
  /** The function with this C prototype; null when the library has none of its name. */
  bind(signature: string): NativeFunction | null;
}

/** Opens a library by path or name. Null when there is none, or one that cannot be loaded. */
export type OpenLibrary = (path: string) => NativeLibrary | null;

/** Opens libraries of this system. */
export const openSystemLibrary: OpenLibrary = (path) => {
  let handle: LibraryHandle;
  try {
    handle = koffi.load(path);
  } catch {
    return null; // Not there, for another system, or in want of another library: no candidate.
  }
  return {
    path,
    bind(signature) {
      try {
        // koffi's functions are untyped; the signature says that an int comes back.
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
