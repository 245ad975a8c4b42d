/**
 * Retention of contents: a priority and a duration per range of tokens. Names, bounds and the rule
 * per block are TensorRT-LLM's (`KvCacheRetentionConfig`).
 */
import { assert, EngineError } from "#base";

/** The lowest priority: such blocks are evicted first. */
export const PRIORITY_MIN = 0;
/** The highest priority. */
export const PRIORITY_MAX = 100;
/** The priority of a block without retention. */
export const PRIORITY_DEFAULT = 35;

/** Retention of the blocks of a range of prompt tokens. */
export interface TokenRangeRetention {
  /** First token, from 0. */
  readonly start: number;
  /** The token behind the last one; null: to the prompt's end. */
  readonly end: number | null;
  /** 0 to 100; low is evicted first. */
  readonly priority: number;
  /** How long the priority outlives the last holder; then it is 35. null: until evicted. */
  readonly durationMs: number | null;
}

/** A request's retention. */
export interface RetentionConfig {
  /** Do not overlap; blocks in gaps keep their earlier priority, or 35. */
  readonly ranges: readonly TokenRangeRetention[];
  /** The same for blocks of generated tokens. */
  readonly decodePriority: number;
  readonly decodeDurationMs: number | null;
}

/**
 * A request's retention of one block. It replaces the earlier one; a request without retention has
 * null in place of this, and leaves a stored block as it is.
 */
export interface BlockRetention {
  /** null: not set, a stored block keeps its own. */
  readonly priority: number | null;
  /** null: for ever. */
  readonly durationMs: number | null;
}

/** A block's current retention: it moves with the block's contents. */
export interface BlockLease {
  /** 0 to 100. */
  readonly priority: number;
  /** From the last release on; null: for ever. */
  readonly durationMs: number | null;
  /** End of the running duration, on the cache's clock; null: none runs. */
  readonly deadlineMs: number | null;
}

/**
 * The lease for a level without a clock, as disk: contents with a duration get the priority after
 * its end, 35, since a restart would make their own last for ever.
 */
export function timelessLease({ priority, durationMs }: BlockLease): BlockLease {
  const worth = durationMs === null ? priority : PRIORITY_DEFAULT;
  return { priority: worth, durationMs: null, deadlineMs: null };
}

/** An invalid field: its path, and the values that it may have. */
export interface RetentionProblem {
  /** E.g. `["ranges", 1, "start"]`, by the caller's own order of ranges. */
  readonly path: readonly (string | number)[];
  /** E.g. `must be at least 0`. */
  readonly wanted: string;
  readonly current: number | null;
}

/** Asserts that a priority is valid. */
export function checkPriority(priority: number): void {
  // The message is built only on failure: this is called for every block.
  if (!isPriority(priority)) assert(false, `Cannot keep blocks with priority ${priority}`);
}

/** The config with its ranges in order. Throws INVALID_ARGUMENT, param `retention`. */
export function checkedRetention(config: RetentionConfig): RetentionConfig {
  const problem = retentionProblem(config);
  if (problem !== null) {
    const { path, wanted, current } = problem;
    const field = path.map((key) => (typeof key === "number" ? `[${key}]` : `.${key}`)).join("");
    const message = `Cannot use retention${field}: ${wanted}, current value is ${current}`;
    throw new EngineError("INVALID_ARGUMENT", message, { param: "retention" });
  }
  return { ...config, ranges: byStart(config.ranges).map(([range]) => range) };
}

/**
 * The first problem of a config, or null: of a single range, else between ranges, else of the
 * decode fields.
 */
export function retentionProblem(config: RetentionConfig): RetentionProblem | null {
  const { ranges, decodePriority, decodeDurationMs } = config;
  for (const [index, range] of ranges.entries()) {
    const problem = rangeProblem(range);
    if (problem !== null) return { ...problem, path: ["ranges", index, ...problem.path] };
  }
  return (
    orderProblem(ranges) ??
    priorityProblem("decodePriority", decodePriority) ??
    durationProblem("decodeDurationMs", decodeDurationMs)
  );
}

/**
 * Why a config cannot have its effect, or null: a range has a lower priority than its continuation.
 * Such a config is used all the same.
 */
export function retentionWarning(config: RetentionConfig): string | null {
  const ranges = byStart(config.ranges).map(([range]) => range);
  let lowest: TokenRangeRetention | null = null;
  for (const range of ranges) {
    if (lowest !== null && lowest.priority < range.priority) {
      return uselessRange(lowest, range.priority, `tokens from ${range.start} on`);
    }
    if (lowest === null || range.priority < lowest.priority) lowest = range;
  }
  // Requests that do not set a decode priority have the default.
  const { decodePriority } = config;
  const isSaid = decodePriority !== PRIORITY_DEFAULT;
  return isSaid && lowest !== null && lowest.priority < decodePriority
    ? uselessRange(lowest, decodePriority, "generated tokens")
    : null;
}

/**
 * A checked config's retention of each block of a prompt, the partially filled last one included:
 * [ceil(promptTokens / blockTokens)]. A block belongs to the range of its first token; null: no
 * retention is set.
 */
export function promptRetention(
  config: RetentionConfig,
  promptTokens: number,
  blockTokens: number,
): (BlockRetention | null)[] {
  const { ranges } = config;
  const said = ranges.map(({ priority, durationMs }) => ({ priority, durationMs }));
  const blocks: (BlockRetention | null)[] = [];
  let next = 0;
  for (let first = 0; first < promptTokens; first += blockTokens) {
    while (endOf(ranges[next]) <= first) next++;
    const isInside = first >= (ranges[next]?.start ?? Number.POSITIVE_INFINITY);
    blocks.push((isInside ? said[next] : null) ?? null);
  }
  return blocks;
}

/** A checked config's retention of blocks that begin with a generated token. */
export function decodeRetention(config: RetentionConfig): BlockRetention {
  return { priority: config.decodePriority, durationMs: config.decodeDurationMs };
}

/** The end of a range; infinite without one, and behind the last range. */
function endOf(range: TokenRangeRetention | undefined): number {
  return range?.end ?? Number.POSITIVE_INFINITY;
}

/** The ranges by their start, and each one's place in the caller's list. */
function byStart(
  ranges: readonly TokenRangeRetention[],
): (readonly [range: TokenRangeRetention, index: number])[] {
  return ranges
    .map((range, index) => [range, index] as const)
    .sort(([a], [b]) => a.start - b.start);
}

function rangeProblem({ start, end, priority, durationMs }: TokenRangeRetention) {
  if (!Number.isInteger(start) || start < 0) {
    return { path: ["start"], wanted: "must be an integer of at least 0", current: start };
  }
  if (end !== null && (!Number.isInteger(end) || end <= start)) {
    const wanted = `must be an integer above the range's start (${start})`;
    return { path: ["end"], wanted, current: end };
  }
  return priorityProblem("priority", priority) ?? durationProblem("durationMs", durationMs);
}

function orderProblem(ranges: readonly TokenRangeRetention[]): RetentionProblem | null {
  const ordered = byStart(ranges);
  for (const [at, [{ start }, index]] of ordered.entries()) {
    const before = ordered[at - 1]?.[0];
    if (before === undefined) continue;
    if (before.end === null) {
      const path = ["ranges", ordered[at - 1]?.[1] ?? 0, "end"];
      const wanted = `must be at most ${start}, where another range starts`;
      return { path, wanted, current: null };
    }
    if (start < before.end) {
      const wanted = `must be at least ${before.end}, the end of the range before it`;
      return { path: ["ranges", index, "start"], wanted, current: start };
    }
  }
  return null;
}

function priorityProblem(field: string, priority: number): RetentionProblem | null {
  if (isPriority(priority)) return null;
  const wanted = `must be an integer from ${PRIORITY_MIN} to ${PRIORITY_MAX}`;
  return { path: [field], wanted, current: priority };
}

function durationProblem(field: string, durationMs: number | null): RetentionProblem | null {
  if (durationMs === null || (Number.isFinite(durationMs) && durationMs > 0)) return null;
  return { path: [field], wanted: "must be more than 0, or null", current: durationMs };
}

function isPriority(value: number): boolean {
  return Number.isInteger(value) && value >= PRIORITY_MIN && value <= PRIORITY_MAX;
}

function uselessRange(low: TokenRangeRetention, priority: number, what: string): string {
  return (
    `Retention: tokens from ${low.start} on have priority ${low.priority}, but the ${what} that ` +
    `continue them have ${priority}. A block is found only through all blocks before it, so the ` +
    "two go together: the higher one with the lower under the eviction policy true-priority, the " +
    `lower one with the higher under priority; give the first at least ${priority}`
  );
}
