/**
 * Compares what workers announce with what the router computed of the same prompts. A router that
 * has other tokens than its workers, or another salt, finds nothing of their caches, and everything
 * seems to work.
 */
import type { Clock } from "#base";
import type { PromptBlocks, WorkerNumber } from "#cluster/protocol";
import type { EndWatch, PromptUsage } from "./prompt-usage.ts";

/** Prompts that are watched at a time, of each worker; more say nothing more. */
const WATCHED_MAX = 32;
/** Events may come this long after the answer. */
const GRACE_MS = 3000;
/** As many prompts in a row of which nothing was announced are said. */
const ALARM_PROMPTS = 5;
/** A beginning of other tokens is looked for at most so far away. */
const SHIFT_MAX = 4;

export interface TokenWatchOptions {
  readonly clock: Clock;
  /** Runs of blocks of which the index does not know what they follow, so far. */
  readonly unknownParents: () => number;
  /** Tokens of the first blocks of prompts that the worker announced last. */
  readonly beginningsOf: (workerId: string) => readonly Uint32Array[];
  /** One line for operators. */
  readonly say: (message: string) => void;
}

/** A prompt at a worker that announces its cache. */
export interface WatchedPrompt {
  readonly workerId: string;
  readonly number: WorkerNumber;
  readonly prompt: PromptBlocks;
  /** As the router computed them. */
  readonly tokens: Uint32Array;
}

/** Sums since the start. */
export interface TokenCounts {
  /** Prompts whose blocks were announced as they were computed here. */
  confirmed: number;
  /** Prompts that a worker computed, announcing others but not these. */
  differing: number;
}

interface WorkerState {
  readonly pending: Map<number, Watch>;
  /** Runs of blocks that the index took over. */
  stored: number;
  differingInARow: number;
}

/** Waits for the last full block of a prompt: its name says all tokens before it. */
interface Watch {
  readonly state: WorkerState;
  readonly watched: WatchedPrompt;
  readonly low: number;
  readonly high: number;
  readonly storedBefore: number;
  readonly unknownBefore: number;
  isSeen: boolean;
  dueMs: number;
}

export class TokenWatch {
  readonly counts: TokenCounts = { confirmed: 0, differing: 0 };
  readonly #options: TokenWatchOptions;
  readonly #states = new Map<WorkerNumber, WorkerState>();
  /** In the order of their times. */
  #ended: Watch[] = [];

  constructor(options: TokenWatchOptions) {
    this.#options = options;
  }

  /** A request was sent; returns what is to be told of its end. */
  routed(watched: WatchedPrompt): EndWatch {
    const { keys } = watched.prompt;
    const state = this.#stateOf(watched.number);
    const [low = 0, high = 0] = keys.subarray(-2);
    if (keys.length === 0 || state.pending.size >= WATCHED_MAX || state.pending.has(low)) {
      return NOT_WATCHED;
    }
    const watch: Watch = {
      ...{ state, watched, low, high, isSeen: false, dueMs: 0 },
      storedBefore: state.stored,
      unknownBefore: this.#options.unknownParents(),
    };
    state.pending.set(low, watch);
    return (usage, isComplete) => this.#requestEnded(watch, usage, isComplete);
  }

  /** A worker has announced blocks, by the index's names. */
  stored(number: WorkerNumber, keys: Uint32Array): void {
    const state = this.#states.get(number);
    if (state === undefined) return;
    state.stored++;
    if (state.pending.size === 0) return;
    for (let at = 0; at < keys.length; at += 2) {
      const watch = state.pending.get(keys[at] ?? 0);
      if (watch !== undefined && watch.high === keys[at + 1]) watch.isSeen = true;
    }
  }

  /** Judges prompts whose time is over. */
  look(): void {
    const nowMs = this.#options.clock.nowMs();
    const due = this.#ended.filter(({ dueMs }) => dueMs <= nowMs);
    if (due.length === 0) return;
    this.#ended = this.#ended.filter(({ dueMs }) => dueMs > nowMs);
    for (const watch of due) this.#judge(watch);
  }

  /** The worker is gone; its number may be another's. */
  left(number: WorkerNumber): void {
    this.#states.delete(number);
  }

  #requestEnded(watch: Watch, usage: PromptUsage | null, isComplete: boolean): void {
    const { prompt } = watch.watched;
    const { blockTokens } = prompt.scope;
    const last = (prompt.keys.length / 2 - 1) * blockTokens;
    // What was cached is not announced anew.
    if (isComplete && (usage?.cachedTokens ?? 0) <= last) {
      watch.dueMs = this.#options.clock.nowMs() + GRACE_MS;
      this.#ended.push(watch);
    } else watch.state.pending.delete(watch.low);
    this.look();
  }

  #judge({ state, watched, low, isSeen, storedBefore, unknownBefore }: Watch): void {
    state.pending.delete(low);
    if (isSeen) {
      this.counts.confirmed++;
      state.differingInARow = 0;
      return;
    }
    // A silent feed, and blocks below unknown ones, say nothing of tokens.
    const isSilent = state.stored === storedBefore;
    if (isSilent || this.#options.unknownParents() !== unknownBefore) return;
    this.counts.differing++;
    state.differingInARow++;
    if (state.differingInARow !== ALARM_PROMPTS) return;
    const { workerId, tokens } = watched;
    const beginnings = this.#options.beginningsOf(workerId);
    this.#options.say(
      `worker ${workerId} has announced nothing of the last ${ALARM_PROMPTS} prompts that it ` +
        `computed, but other blocks: ${differenceOf(tokens, beginnings)}; what its cache has is ` +
        "not found, see perigee_router_announced_prompts",
    );
  }

  #stateOf(number: WorkerNumber): WorkerState {
    const known = this.#states.get(number);
    if (known !== undefined) return known;
    const state: WorkerState = { pending: new Map(), stored: 0, differingInARow: 0 };
    this.#states.set(number, state);
    return state;
  }
}

const NOT_WATCHED = (): void => {};

/** In words and numbers of places: a token's id would tell what clients wrote. */
export function differenceOf(own: Uint32Array, beginnings: readonly Uint32Array[]): string {
  let best = { equal: 0, length: 1, shift: 0 };
  for (const announced of beginnings) {
    for (let shift = -SHIFT_MAX; shift <= SHIFT_MAX; shift++) {
      const equal = equalTokens(own, announced, shift);
      if (equal > best.equal) best = { equal, length: announced.length, shift };
    }
  }
  const { equal, length, shift } = best;
  if (equal < length / 2) return "they have other tokens";
  if (shift === 0 && equal === length)
    return "they begin alike, and have another scope or go on otherwise";
  if (shift === 0) return `${length - equal} of their first ${length} tokens are others`;
  const more = shift > 0 ? "more" : "fewer";
  return `they begin with ${Math.abs(shift)} tokens ${more} than here`;
}

/** Tokens of `announced` that are those of `own`, `shift` places later. */
function equalTokens(own: Uint32Array, announced: Uint32Array, shift: number): number {
  let equal = 0;
  for (let at = Math.max(0, shift); at < announced.length; at++) {
    if (announced[at] === own[at - shift]) equal++;
  }
  return equal;
}
