/**
 * How long people want contents to stay: a priority and a duration per range of tokens. Names,
 * bounds and the rule per block are TensorRT-LLM's (`KvCacheRetentionConfig`).
 */
import { assert, EngineError } from "#base";

/** Least and most worth keeping, and what a block is worth that nobody said anything about. */
export const PRIORITY_MIN = 0;
export const PRIORITY_MAX = 100;
export const PRIORITY_DEFAULT = 35;

/** What the blocks of some of a prompt's tokens are worth. */
export interface TokenRangeRetention {
  /** First token, from 0. */
  readonly start: number;
  /** The token behind the last one; null: to the prompt's end. */
  readonly end: number | null;
  /** 0 to 100; low goes first. */
  readonly priority: number;
  /** How long the priority outlives the last holder; then it is 35. null: until evicted. */
  readonly durationMs: number | null;
}

/** What a request wants kept. */
export interface RetentionConfig {
  /** Do not overlap; gaps are worth what their blocks were worth before, or 35. */
  readonly ranges: readonly TokenRangeRetention[];
  /** The same for blocks of generated tokens. */
  readonly decodePriority: number;
  readonly decodeDurationMs: number | null;
}

/**
 * What a request says about one block. It replaces what was said before; who says nothing has null
 * in place of this, and leaves a stored block as it is.
 */
export interface BlockRetention {
  /** null: nothing about that, a stored block keeps its own. */
  readonly priority: number | null;
  /** null: for ever. */
  readonly durationMs: number | null;
}

/** What is known of how long a block is worth keeping: goes along when its contents move. */
export interface BlockLease {
  /** 0 to 100. */
  readonly priority: number;
  /** From the last release on; null: for ever. */
  readonly durationMs: number | null;
  /** When the time that runs now ends, on the cache's clock; null: none runs. */
  readonly deadlineMs: number | null;
}

/**
 * What contents are worth where no time is kept, as on disk: what has an end is worth what it will
 * be worth then, or a restart would make it last for ever.
 */
export function timelessLease({ priority, durationMs }: BlockLease): BlockLease {
  const worth = durationMs === null ? priority : PRIORITY_DEFAULT;
  return { priority: worth, durationMs: null, deadlineMs: null };
}

/** A field that cannot be used: where it stands, and what it must be. */
export interface RetentionProblem {
  /** E.g. `["ranges", 1, "start"]`, by the caller's own order of ranges. */
  readonly path: readonly (string | number)[];
  /** E.g. `must be at least 0`. */
  readonly wanted: string;
  readonly current: number | null;
}

/** Stops at a priority that nobody checked. */
export function checkPriority(priority: number): void {
  // The message is made only where it is wanted: this is called for every block.
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

/** What is wrong with a config: the first range that is wrong by itself, else beside others. */
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
 * Why a config cannot do what it says, or null: a range is worth less than what continues it. Such
 * a config is used all the same.
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
  // The default is what requests have that say nothing about their output.
  const { decodePriority } = config;
  const isSaid = decodePriority !== PRIORITY_DEFAULT;
  return isSaid && lowest !== null && lowest.priority < decodePriority
    ? uselessRange(lowest, decodePriority, "generated tokens")
    : null;
}

/**
 * What a checked config says about each block of a prompt, the partially filled last one included:
 * [ceil(promptTokens / blockTokens)]. A block belongs to the range of its first token; null:
 * nothing is said of it.
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

/** What a checked config says about blocks that begin with a generated token. */
export function decodeRetention(config: RetentionConfig): BlockRetention {
  return { priority: config.decodePriority, durationMs: config.decodeDurationMs };
}

/** Behind the last range nothing ends. */
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
