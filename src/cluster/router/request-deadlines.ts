/** Fields of a request that are the router's alone: its deadlines, and the word `batch`. */
import { EngineError, isPlainObject, shortText } from "#base";
import type { RequestDeadlines } from "#cluster/routing";
import { BATCH_PRIORITY } from "#server";

const MS_MAX = 1e9;
const FIELDS = ["ttft_ms", "tbt_ms"] as const;

/** Throws INVALID_ARGUMENT for what are no deadlines. */
export function readDeadlines(value: unknown): RequestDeadlines {
  if (value === undefined || value === null) return {};
  if (!isPlainObject(value)) throw wrong("deadlines", 'an object, e.g. {"ttft_ms": 500}', value);
  for (const name of Object.keys(value)) {
    if (FIELDS.some((known) => known === name)) continue;
    throw wrong("deadlines", `made of ${FIELDS.join(" and ")}`, name);
  }
  const [ttftMs, tbtMs] = FIELDS.map((name) => readMs(`deadlines.${name}`, value[name]));
  return {
    ...(ttftMs === undefined ? {} : { ttftMs }),
    ...(tbtMs === undefined ? {} : { tbtMs }),
  };
}

/** Undefined: the fleet's deadline; null: none. */
function readMs(param: string, value: unknown): number | null | undefined {
  if (value === undefined || value === null) return value;
  if (typeof value === "number" && value > 0 && value <= MS_MAX) return value;
  throw wrong(param, `a number above 0 and up to ${MS_MAX}, or null`, value);
}

function wrong(param: string, wanted: string, value: unknown): EngineError {
  const shown = shortText(typeof value === "string" ? value : (JSON.stringify(value) ?? "none"));
  const message = `Cannot use ${param}: must be ${wanted}, current value is ${shown}`;
  return new EngineError("INVALID_ARGUMENT", message, { param });
}

/** The body without deadlines, and with a number in place of the word. */
export function forWorkers(
  text: string,
  body: Readonly<Record<string, unknown>>,
): { readonly text: string; readonly body: Readonly<Record<string, unknown>> } {
  const hasOwn = Object.hasOwn(body, "deadlines");
  const isBatch = body.priority === "batch";
  if (!hasOwn && !isBatch) return { text, body };
  const { deadlines: _read, ...rest } = body;
  const own = isBatch ? { ...rest, priority: BATCH_PRIORITY } : rest;
  return { text: JSON.stringify(own), body: own };
}
