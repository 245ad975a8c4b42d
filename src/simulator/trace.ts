import { EngineError } from "#base";
import { fileBytes, traceLines } from "./trace-lines.ts";
import { parseTraceRow, type RowKind, type TraceRow } from "./trace-row.ts";

/** One request of a trace. */
export interface TraceRequest {
  /** Since the trace's start, as recorded. */
  readonly timestampMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  /** [inputBlocks] a number per block, equal for equal blocks of all rows; or [inputTokens]. */
  readonly ids: Int32Array;
  /** [<= inputBlocks] Priority of each block, 0 to 100; null: none set. */
  readonly priorities: Uint8Array | null;
}

/** Requests in the order they came. */
export interface Trace {
  readonly requests: readonly TraceRequest[];
  /** The meaning of `ids`: blocks or tokens. The same for all rows. */
  readonly kind: RowKind;
  /** Tokens that a block stands for. */
  readonly blockTokens: number;
  /** Blocks of all requests, counted again wherever they come again. */
  readonly blockRefs: number;
}

export interface TraceOptions {
  /** Tokens that a hash id stands for, or that token rows are cut into. Mooncake's: 512. */
  readonly blockTokens: number;
  /** The name of the trace in errors. */
  readonly path: string;
}

/**
 * Reads a trace file. Throws IO when it cannot be read, INVALID_ARGUMENT naming the line where a
 * row is broken.
 */
export async function readTrace(path: string, blockTokens: number): Promise<Trace> {
  return parseTrace(traceLines(fileBytes(path), path), { path, blockTokens });
}

/** Makes a trace of lines of JSON; empty lines are passed over. Throws as `readTrace` does. */
export async function parseTrace(
  lines: AsyncIterable<string> | Iterable<string>,
  options: TraceOptions,
): Promise<Trace> {
  const builder = new TraceBuilder(options);
  for await (const line of lines) builder.add(line);
  return builder.finish();
}

class TraceBuilder {
  readonly #options: TraceOptions;
  readonly #requests: TraceRequest[] = [];
  /**
   * Hash ids may have more bits than the cache's tokens: they are numbered in order of appearance.
   */
  readonly #numbers = new Map<number, number>();
  #kind: RowKind | null = null;
  #blockRefs = 0;
  #line = 0;

  constructor(options: TraceOptions) {
    this.#options = options;
  }

  add(text: string): void {
    this.#line++;
    if (text.trim() === "") return;
    const { path, blockTokens } = this.#options;
    const row = parseTraceRow(text, blockTokens, { path, line: this.#line });
    this.#kind ??= row.kind;
    if (row.kind !== this.#kind) {
      throw this.#error(`line ${this.#line} must be a row of ${this.#kind} like those before`);
    }
    const blocks =
      row.kind === "blocks" ? row.ids.length : Math.ceil(row.inputTokens / blockTokens);
    this.#blockRefs += blocks;
    this.#requests.push({
      timestampMs: row.timestampMs,
      inputTokens: row.inputTokens,
      outputTokens: row.outputTokens,
      ids: this.#idsOf(row),
      priorities: row.priorities === null ? null : Uint8Array.from(row.priorities.slice(0, blocks)),
    });
  }

  finish(): Trace {
    if (this.#kind === null) throw this.#error("wanted at least one request, current value is 0");
    return {
      requests: this.#requests,
      kind: this.#kind,
      blockTokens: this.#options.blockTokens,
      blockRefs: this.#blockRefs,
    };
  }

  #idsOf(row: TraceRow): Int32Array {
    if (row.kind === "tokens") return Int32Array.from(row.ids);
    return Int32Array.from(row.ids, (id) => {
      const known = this.#numbers.get(id);
      if (known !== undefined) return known;
      const next = this.#numbers.size;
      this.#numbers.set(id, next);
      return next;
    });
  }

  #error(what: string): EngineError {
    const message = `Cannot read trace ${this.#options.path}: ${what}`;
    return new EngineError("INVALID_ARGUMENT", message, { param: "trace" });
  }
}
