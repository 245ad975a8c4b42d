import type { DecisionRecord, ServiceWatch } from "#cluster/conductor";

/** Requests whose decisions are kept; and decisions of one: it may be sent several times. */
const REQUESTS_MAX = 2048;
const OF_REQUEST_MAX = 8;
/** Decisions that are kept in their order, for those who watch. */
const LAST_MAX = 64;

export interface DecisionBookParts {
  readonly metrics: ServiceWatch;
  /** Null: decisions are not logged. */
  readonly log: { add(line: string): void } | null;
}

/** Keeps the last decisions, by the ids of their requests, to be explained afterwards. */
export class DecisionBook implements ServiceWatch {
  readonly #parts: DecisionBookParts;
  /** In the order in which requests were seen first. */
  readonly #lines = new Map<string, string[]>();
  /** The last ones of all, the oldest first. */
  #last: string[] = [];
  #count = 0;

  constructor(parts: DecisionBookParts) {
    this.#parts = parts;
  }

  /** Decisions since the start. */
  get count(): number {
    return this.#count;
  }

  /** Decisions behind the first `count` ones, as lines, as far as they are kept. */
  since(count: number): readonly string[] {
    const news = Math.min(this.#last.length, Math.max(0, this.#count - count));
    return this.#last.slice(this.#last.length - news);
  }

  /** Lines of JSON, the oldest first; none: it was not seen, or is forgotten. */
  decisionsOf(request: string): readonly string[] {
    return this.#lines.get(request) ?? [];
  }

  decided(record: DecisionRecord): void {
    const { metrics, log } = this.#parts;
    metrics.decided(record);
    log?.add(record.line);
    this.#count++;
    this.#last.push(record.line);
    // In one go now and then: a shift for each decision moves all that is kept.
    if (this.#last.length === 2 * LAST_MAX) this.#last = this.#last.slice(-LAST_MAX);
    if (record.request === "") return;
    const lines = this.#lines.get(record.request);
    if (lines !== undefined) {
      lines.push(record.line);
      if (lines.length > OF_REQUEST_MAX) lines.shift();
      return;
    }
    this.#lines.set(record.request, [record.line]);
    if (this.#lines.size <= REQUESTS_MAX) return;
    for (const oldest of this.#lines.keys()) {
      this.#lines.delete(oldest);
      return;
    }
  }

  /** A decision that is no request's: it is logged, and kept for no one. */
  note(line: Readonly<Record<string, unknown>>): void {
    this.#parts.log?.add(JSON.stringify(line));
  }

  /** What a worker says that it held for a request that was decided: a line behind the decision. */
  held(request: string, workerId: string, kvByteSeconds: number): void {
    const lines = this.#lines.get(request);
    if (lines === undefined) return;
    const line = JSON.stringify({
      ...{ request, event: "held", worker: workerId, kv_byte_seconds: kvByteSeconds },
    });
    this.#parts.log?.add(line);
    lines.push(line);
    if (lines.length > OF_REQUEST_MAX) lines.shift();
  }

  firstToken(ms: number, deadlineMs: number | null): void {
    this.#parts.metrics.firstToken(ms, deadlineMs);
  }

  gap(ms: number, deadlineMs: number | null): void {
    this.#parts.metrics.gap(ms, deadlineMs);
  }
}
