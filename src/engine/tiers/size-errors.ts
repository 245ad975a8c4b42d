/** Errors for impossible sizes of levels. */
import { EngineError } from "#base";

/** A level of the cache, by the name of its size, that has no room for one block. */
export function tooSmall(param: string, bytes: number, bytesPerBlock: number): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: must be at least the ${bytesPerBlock} bytes of one block, ` +
      `current value is ${bytes}; raise ${param}, or lower blockTokens`,
    { param },
  );
}

/** A level of the cache, by the name of its size, that this machine has no memory for. */
export function tooLarge(param: string, bytes: number, bytesFree: number): EngineError {
  return new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use ${param}: must be at most the ${bytesFree} bytes of memory that are free, ` +
      `current value is ${bytes}; lower ${param}`,
    { param },
  );
}
