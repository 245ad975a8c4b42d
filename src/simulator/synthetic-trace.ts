/**
 * A made-up trace with the statistics of Mooncake's synthetic one, whose file is not at hand: long
 * documents that are asked about several times, and chats that grow, at random times. Source of the
 * statistics: R. Qin et al. 2025, "Mooncake" (FAST'25), section 5.1, and the published trace.
 */
import type { Trace, TraceRequest } from "./trace.ts";
import { type Amount, Draws } from "./traffic/draws.ts";

/** The published trace's: as many requests, at as many a second, in blocks of as many tokens. */
export const SYNTHETIC_REQUESTS = 3993;
const PER_SECOND = 3.91;
const BLOCK_TOKENS = 512;

export interface SyntheticOptions {
  readonly seed: number;
  /** Default: as many as the published trace has. More take longer, at the same rate. */
  readonly requests?: number;
}

/**
 * What makes a session. The paper mixes chats (ShareGPT) with documents (L-Eval, LooGLE), one third
 * of the requests each; the amounts here were fitted to the published trace's quantiles, shares of
 * hits and times between them.
 */
const CHAT_SHARE = 1 / 3;
const DOCUMENT: Amount = { median: 16_300, spread: 0.68, most: 190_000 };
const QUESTION: Amount = { median: 60, spread: 0.8, most: 1000 };
/** Documents that are asked about once, and how often others are. */
const ONCE_SHARE = 0.53;
const QUESTIONS_MEAN = 5.2;
const DOCUMENT_ANSWER: Amount = { median: 40, spread: 0.9, most: 893 };
const TURNS_MEAN = 5;
const CHAT_START: Amount = { median: 700, spread: 1.1, most: 20_000 };
const CHAT_WORDS: Amount = { median: 400, spread: 1.1, most: 8000 };
const CHAT_ANSWER: Amount = { median: 250, spread: 0.72, most: 893 };
/** Between requests of one session. */
const PAUSE_MS = 420_000;

interface SessionTimes {
  readonly startMs: number;
  readonly spanMs: number;
  readonly count: number;
}

/** A request before its place in the order is known. */
interface Planned {
  readonly atMs: number;
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly ids: Int32Array;
}

/** The same options give the same trace, in the order of time; times are those of chance. */
export function syntheticTrace({ seed, requests = SYNTHETIC_REQUESTS }: SyntheticOptions): Trace {
  const planned = new Sessions(seed, requests).plan();
  const times = new Draws(seed, 1);
  let atMs = 0;
  let blockRefs = 0;
  const rows = planned.map(({ inputTokens, outputTokens, ids }): TraceRequest => {
    atMs += times.gapMs(PER_SECOND);
    blockRefs += ids.length;
    return { timestampMs: atMs, inputTokens, outputTokens, ids, priorities: null };
  });
  return { requests: rows, kind: "blocks", blockTokens: BLOCK_TOKENS, blockRefs };
}

/** Draws sessions until there are enough requests. */
class Sessions {
  readonly #draws: Draws;
  readonly #requests: number;
  readonly #planned: Planned[] = [];
  #blocks = 0;

  constructor(seed: number, requests: number) {
    this.#draws = new Draws(seed, 0);
    this.#requests = requests;
  }

  plan(): readonly Planned[] {
    const spanMs = (this.#requests / PER_SECOND) * 1000;
    while (this.#planned.length < this.#requests) {
      const startMs = this.#draws.uniform() * spanMs;
      // A chat has more requests than a document: shares are of requests.
      if (this.#draws.chance(chatSessions())) this.#chat(startMs, spanMs);
      else this.#document(startMs, spanMs);
    }
    const all = this.#planned.slice(0, this.#requests);
    return all.sort((a, b) => a.atMs - b.atMs);
  }

  #document(startMs: number, spanMs: number): void {
    const draws = this.#draws;
    const documentTokens = draws.tokens(DOCUMENT);
    const whole = Math.floor(documentTokens / BLOCK_TOKENS);
    const first = this.#blocks;
    this.#blocks += whole;
    const asked = draws.chance(ONCE_SHARE) ? 1 : 1 + draws.times(QUESTIONS_MEAN - 1);
    for (const atMs of this.#times({ startMs, spanMs, count: asked })) {
      const inputTokens = documentTokens + draws.tokens(QUESTION);
      this.#add(atMs, inputTokens, draws.tokens(DOCUMENT_ANSWER), (at) =>
        at < whole ? first + at : null,
      );
    }
  }

  #chat(startMs: number, spanMs: number): void {
    const draws = this.#draws;
    const turns = draws.times(TURNS_MEAN);
    let inputTokens = draws.tokens(CHAT_START);
    let known: Int32Array = new Int32Array(0);
    for (const atMs of this.#times({ startMs, spanMs, count: turns })) {
      const answer = draws.tokens(CHAT_ANSWER);
      const before = known;
      known = this.#add(atMs, inputTokens, answer, (at) => before[at] ?? null);
      // Blocks that were full go on; the last one is filled up by what comes.
      known = known.subarray(0, Math.floor(inputTokens / BLOCK_TOKENS));
      inputTokens += answer + draws.tokens(CHAT_WORDS);
    }
  }

  /**
   * A session's requests, in order. What would come behind the end comes at the beginning: so the
   * whole trace has as many new sessions, and as many that go on.
   */
  #times({ startMs, spanMs, count }: SessionTimes): number[] {
    let atMs = startMs;
    return Array.from({ length: count }, () => {
      const own = atMs % spanMs;
      atMs += this.#draws.gapMs(1000 / PAUSE_MS);
      return own;
    }).sort((a, b) => a - b);
  }

  /** `shared`: the number of a block that others have; null: it is new. */
  #add(
    atMs: number,
    inputTokens: number,
    outputTokens: number,
    shared: (at: number) => number | null,
  ): Int32Array {
    const blocks = Math.ceil(inputTokens / BLOCK_TOKENS);
    const ids = Int32Array.from({ length: blocks }, (_, at) => shared(at) ?? this.#blocks++);
    this.#planned.push({ atMs, inputTokens, outputTokens, ids });
    return ids;
  }
}

/** The share of sessions that are chats. */
function chatSessions(): number {
  const questions = ONCE_SHARE + (1 - ONCE_SHARE) * QUESTIONS_MEAN;
  const chats = CHAT_SHARE / TURNS_MEAN;
  return chats / (chats + (1 - CHAT_SHARE) / questions);
}
