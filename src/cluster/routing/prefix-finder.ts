import type { Clock } from "#base";
import type {
  KvScope,
  PrefixLookup,
  PrefixMatch,
  PromptBlocks,
  WorkerInfo,
  WorkerNumber,
} from "#cluster/protocol";
import { InFlightPrefixes, type PromptInFlight } from "./in-flight-prefixes.ts";

/** What is looked up of a request. */
export interface PrefixQuery {
  /** Null: the router does not know the model's tokens. */
  readonly tokens: Uint32Array | null;
  readonly salt: string | null;
  readonly lora: string | null;
  /** The tokens are pieces of text: they are none of what workers announce. Default: false. */
  readonly isText?: boolean;
  /** The name that the client asked for, which may be an adapter's. */
  readonly model?: string | null;
}

/** How much of a prompt each worker has, of whatever index it is in. */
export interface PrefixFinder {
  /** One per worker, in its own blocks; null: nothing, or nothing is known. */
  find(query: PrefixQuery, workers: readonly WorkerInfo[]): readonly (PrefixMatch | null)[];
  /** The worker got the request, and will have its prompt. */
  routed(query: PrefixQuery, worker: WorkerInfo): PromptInFlight;
  /** The worker said how many tokens of the prompt it had; null: it does not say. */
  served(query: PrefixQuery, worker: WorkerInfo, cachedTokens: number | null): void;
}

/** What was known of a prompt, and what came of it. */
export interface ServedPrompt {
  readonly prompt: PromptBlocks;
  readonly promptTokens: number;
  /** What the index said of all workers when the request was routed. */
  readonly matches: readonly PrefixMatch[];
  /** Of the one that got it; null: it had nothing. */
  readonly chosen: PrefixMatch | null;
  readonly cachedTokens: number | null;
  /** What `expect` said. */
  readonly before: Uint8Array;
}

/** Compares hits with what they could have been. */
export interface HitLedger {
  /**
   * A request is routed, once: what is known of the leading blocks that a cache without end would
   * have.
   */
  expect(prompt: PromptBlocks, announces: boolean): Uint8Array;
  record(served: ServedPrompt): void;
}

/** Where a worker's blocks are indexed. */
export interface IndexPlace {
  readonly lookup: PrefixLookup;
  readonly number: WorkerNumber;
  /** As its events name it. */
  readonly model: string;
  readonly blockTokens: number;
  /** By group of layers, as in `WorkerKv`. Default: one group that sees everything. */
  readonly groupWindows?: readonly (number | null)[];
  /** Whether the worker says what it has. */
  readonly announces: boolean;
  /** The adapter that the worker runs the query with, where the query names none. */
  readonly lora?: string | null;
  /** Told what the worker got. */
  readonly routed?: (prompt: PromptBlocks) => void;
}

/** Parts of `IndexedPrefixes`. */
export interface IndexedPrefixesOptions {
  /** Null where nothing is known of the worker's blocks. */
  readonly placeOf: (worker: WorkerInfo, query: PrefixQuery) => IndexPlace | null;
  readonly clock: Clock;
  readonly ledger?: HitLedger;
}

/**
 * Looks a prompt up once per index, model and block size, and adds what is on its way. Nothing is
 * announced before it is computed: without that, a burst of equal prompts would scatter.
 */
export class IndexedPrefixes implements PrefixFinder {
  readonly inFlight: InFlightPrefixes;
  readonly #placeOf: IndexedPrefixesOptions["placeOf"];
  readonly #ledger: HitLedger | undefined;
  /** Looked up when the request was routed, and needed again when it is booked. */
  readonly #answers = new WeakMap<PrefixQuery, PrefixAnswers>();

  constructor({ placeOf, clock, ledger }: IndexedPrefixesOptions) {
    this.#placeOf = placeOf;
    this.#ledger = ledger;
    this.inFlight = new InFlightPrefixes(clock);
  }

  find(query: PrefixQuery, workers: readonly WorkerInfo[]): readonly (PrefixMatch | null)[] {
    const answers = this.#answersOf(query);
    return workers.map((worker) => {
      const place = this.#placeOf(worker, query);
      const answer = place === null ? null : answers.of(query, place);
      if (place === null || answer === null) return null;
      const coming = this.inFlight.leadingBlocks(worker.id, answer.prompt.keys);
      const match = withComing(answer.matches.get(place.number), coming, place.number);
      if (match === null) return null;
      answer.seen.set(place.number, match);
      return inBlocksOf(worker, match, place.blockTokens);
    });
  }

  routed(query: PrefixQuery, worker: WorkerInfo): PromptInFlight {
    const place = this.#placeOf(worker, query);
    const answer = place === null ? null : this.#answersOf(query).of(query, place);
    if (place === null || answer === null) return NOT_INDEXED;
    // Tried elsewhere, a prompt is not one that was seen before.
    answer.before ??= this.#ledger?.expect(answer.prompt, place.announces) ?? null;
    place.routed?.(answer.prompt);
    return this.inFlight.add(worker.id, answer.prompt.keys);
  }

  /** What the worker's index says of a prompt, without what is on its way; null: nothing. */
  answerOf(query: PrefixQuery, worker: WorkerInfo): PrefixAnswer | null {
    const place = this.#placeOf(worker, query);
    return place === null ? null : this.#answersOf(query).of(query, place);
  }

  served(query: PrefixQuery, worker: WorkerInfo, cachedTokens: number | null): void {
    const place = this.#placeOf(worker, query);
    const answer = place === null ? null : this.#answersOf(query).of(query, place);
    if (place === null || answer === null || query.tokens === null) return;
    if (answer.before === null) return;
    // A policy that does not ask the index is measured by it all the same.
    const known = answer.seen.size > 0 ? answer.seen : answer.matches;
    this.#ledger?.record({
      prompt: answer.prompt,
      promptTokens: query.tokens.length,
      matches: [...known.values()],
      chosen: known.get(place.number) ?? null,
      cachedTokens,
      before: answer.before,
    });
  }

  #answersOf(query: PrefixQuery): PrefixAnswers {
    const answers = this.#answers.get(query) ?? new PrefixAnswers();
    this.#answers.set(query, answers);
    return answers;
  }
}

const NOT_INDEXED: PromptInFlight = { computed: () => {}, dropped: () => {} };

/** A prompt as an index names it, and who has how much of it. */
export interface PrefixAnswer {
  readonly prompt: PromptBlocks;
  readonly matches: ReadonlyMap<WorkerNumber, PrefixMatch>;
  /** The same with what was on its way. */
  readonly seen: Map<WorkerNumber, PrefixMatch>;
  /** What the ledger said when it was routed first; null: it was not. */
  before: Uint8Array | null;
}

const ONE_GROUP = [null] as const;

/**
 * The answers to one prompt, each asked for once. They do not hold the query: a collection of the
 * young generation keeps what values of a `WeakMap` hold, so the query would live until a full one.
 */
class PrefixAnswers {
  readonly #answers = new Map<PrefixLookup, Map<string, PrefixAnswer>>();

  /** Null: the prompt's tokens are not known. */
  of(query: PrefixQuery, place: IndexPlace): PrefixAnswer | null {
    const { lookup, model, blockTokens, groupWindows = ONE_GROUP } = place;
    const { tokens, salt } = query;
    const lora = query.lora ?? place.lora ?? null;
    if (tokens === null) return null;
    const answers = this.#answers.get(lookup) ?? new Map<string, PrefixAnswer>();
    this.#answers.set(lookup, answers);
    const name = JSON.stringify([blockTokens, groupWindows, lora, model]);
    const known = answers.get(name);
    if (known !== undefined) return known;
    const scope: KvScope = { model, blockTokens, salt, lora, group: 0 };
    const prompt = lookup.blocksOf(scope, tokens);
    const groups = groupWindows.map((windowTokens, group) => ({
      prompt: group === 0 ? prompt : lookup.blocksOf({ ...scope, group }, tokens),
      windowTokens,
    }));
    const isOne = groups.length === 1 && groups[0]?.windowTokens === null;
    const found = isOne ? lookup.find(prompt) : lookup.findGroups(groups);
    const matches = new Map(found.map((match) => [match.worker, match]));
    const seen = new Map<WorkerNumber, PrefixMatch>();
    const answer: PrefixAnswer = { prompt, matches, seen, before: null };
    answers.set(name, answer);
    return answer;
  }
}

/** Of a worker that does not say. */
export const BLOCK_TOKENS = 16;

/** Blocks of text are longer than the worker's: candidates count in the latter. */
function inBlocksOf({ kv }: WorkerInfo, match: PrefixMatch, blockTokens: number): PrefixMatch {
  const own = kv?.blockTokens ?? BLOCK_TOKENS;
  if (own === blockTokens || own === 0) return match;
  const [device, host, any] = match.levels;
  const scaled = (blocks: number) => Math.floor((blocks * blockTokens) / own);
  return { worker: match.worker, levels: [scaled(device), scaled(host), scaled(any)] };
}

/** What comes will be on the device; it counts where it goes beyond what is announced. */
function withComing(
  match: PrefixMatch | undefined,
  coming: number,
  worker: WorkerNumber,
): PrefixMatch | null {
  if (match === undefined && coming === 0) return null;
  const [device, host, any] = match?.levels ?? [0, 0, 0];
  return {
    worker,
    levels: [Math.max(device, coming), Math.max(host, coming), Math.max(any, coming)],
  };
}
