import { EngineError } from "#base";
import type { NativeFunction, NativeLibrary } from "./native-library.ts";

/** Functions of a library by name. Each returns a status, 0 for success. */
export type Calls<Name extends string> = Readonly<Record<Name, NativeFunction>>;

/** Options of `bindCalls` besides the library. */
export interface CallBinding<Name extends string> {
  /** C prototypes without the return type `int`, by the name that callers use. */
  readonly signatures: Readonly<Record<Name, string>>;
  /** The remedy for a library that lacks one of them. */
  readonly remedy: string;
}

/** Binds every function. Throws DEVICE_UNAVAILABLE for a library that is too old to have them. */
export function bindCalls<Name extends string>(
  library: NativeLibrary,
  { signatures, remedy }: CallBinding<Name>,
): Calls<Name> {
  // Object.keys forgets the key type.
  const names = Object.keys(signatures) as Name[];
  const bound = names.map((name): [Name, NativeFunction] => {
    const call = library.bind(`int ${signatures[name]}`);
    if (call !== null) return [name, call];
    throw new EngineError(
      "DEVICE_UNAVAILABLE",
      `Cannot use ${library.path}: a version with ${name} wanted, this one has none; ${remedy}`,
    );
  });
  // fromEntries forgets it again; the list has every name.
  return Object.fromEntries(bound) as Record<Name, NativeFunction>;
}
