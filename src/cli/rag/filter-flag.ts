import { EngineError, messageOf } from "#base";
import type { Filter } from "#rag";

/** For `--help`. */
export const FILTER_HELP =
  'By attributes of chunks, e.g. {"type":"eq","key":"kind","value":"markdown"}; also ne, gt, ' +
  'gte, lt, lte, in, nin, and {"type":"and","filters":[…]}, or.';

/** `--filter JSON`; null if it is not given. Throws INVALID_ARGUMENT; stores check its fields. */
export function filterFromFlag(text: string | undefined): Filter | null {
  if (text === undefined) return null;
  try {
    return JSON.parse(text);
  } catch (cause) {
    const message = `Cannot use --filter: must be JSON, ${messageOf(cause)}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "--filter", cause });
  }
}
