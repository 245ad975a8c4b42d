import { EngineError } from "#base";

/** The meaning of a row's ids: whole blocks by hash, or the prompt's tokens. */
export type RowKind = "blocks" | "tokens";

/** One line of a trace, checked. */
export interface TraceRow {
  readonly kind: RowKind;
  readonly timestampMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** Hash ids or token ids. */
  readonly ids: readonly number[];
  /** By block; null where the row has none. */
  readonly priorities: readonly number[] | null;
}

const TOKEN_MAX = 2 ** 31 - 1;
const PRIORITY_MAX = 100;
/** JSON rounds hashes of 64 bits, and some traces have hashes as texts. */
const NUMBERED = "; number different blocks 0, 1, 2, … instead";

/** A fault of a row: the expected and the current value. */
class RowFault extends Error {}

/**
 * Reads one line: `{"timestamp", "input_length", "output_length", "hash_ids"}` as Mooncake's traces
 * have it (timestamp in ms), or with `token_ids` in place of `input_length` and `hash_ids`.
 * `block_priorities`, 0 to 100 for each block from the first on, may be in both. Other fields are
 * passed over. Throws INVALID_ARGUMENT naming file and line.
 */
export function parseTraceRow(
  text: string,
  blockTokens: number,
  at: { readonly path: string; readonly line: number },
): TraceRow {
  try {
    return rowOf(text, blockTokens);
  } catch (cause) {
    if (!(cause instanceof RowFault)) throw cause;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot read trace ${at.path}: line ${at.line} ${cause.message}`,
      { cause, param: "trace" },
    );
  }
}

function rowOf(text: string, blockTokens: number): TraceRow {
  const fields = objectOf(text);
  const times = {
    timestampMs: number(fields, "timestamp", { integer: false }),
    outputTokens: number(fields, "output_length", { integer: true }),
    priorities:
      fields.block_priorities === undefined
        ? null
        : numbers(fields, "block_priorities", PRIORITY_MAX),
  };
  if (fields.token_ids !== undefined) {
    const ids = numbers(fields, "token_ids", TOKEN_MAX);
    if (ids.length === 0) throw new RowFault("must have token_ids, current value is []");
    return { ...times, kind: "tokens", inputTokens: ids.length, ids };
  }
  const ids = numbers(fields, "hash_ids", Number.MAX_SAFE_INTEGER, NUMBERED);
  const inputTokens = number(fields, "input_length", { integer: true });
  checkBlocks(ids.length, inputTokens, blockTokens);
  return { ...times, kind: "blocks", inputTokens, ids };
}

function objectOf(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new RowFault(`must be JSON, current value is ${shown(text)}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new RowFault(`must be a JSON object, current value is ${shown(text)}`);
  }
  return value as Readonly<Record<string, unknown>>; // a JSON object has only such fields
}

function number(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  { integer }: { readonly integer: boolean },
): number {
  const value = fields[name];
  const right =
    typeof value === "number" && value >= 0 && (!integer || Number.isSafeInteger(value));
  if (right) return value;
  const wanted = integer ? "a whole number of 0 or more" : "a number of 0 or more";
  throw new RowFault(`must have ${wanted} as ${name}, current value is ${shown(value)}`);
}

function numbers(
  fields: Readonly<Record<string, unknown>>,
  name: string,
  most: number,
  remedy = "",
): readonly number[] {
  const value: unknown = fields[name];
  const wanted = `a list of whole numbers from 0 to ${most} as ${name}`;
  if (!Array.isArray(value)) {
    throw new RowFault(`must have ${wanted}, current value is ${shown(value)}`);
  }
  const wrong = value.findIndex((id) => !Number.isInteger(id) || id < 0 || id > most);
  if (wrong < 0) return value;
  throw new RowFault(
    `must have ${wanted}, current value at ${wrong} is ${shown(value[wrong])}${remedy}`,
  );
}

/** Some traces leave the last block out where it is not full. */
function checkBlocks(ids: number, inputTokens: number, blockTokens: number): void {
  const most = Math.ceil(inputTokens / blockTokens);
  if (ids === most || ids === Math.floor(inputTokens / blockTokens)) return;
  throw new RowFault(
    `must have ${most} hash_ids for ${inputTokens} tokens in blocks of ${blockTokens}, ` +
      `current value is ${ids}; set --block-tokens to the length of the trace's blocks`,
  );
}

function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? "missing");
  return text.length > 40 ? `${text.slice(0, 40)}…` : text;
}
