import type {
  KvScope,
  PrefixLookup,
  PrefixMatch,
  WorkerInfo,
  WorkerNumber,
} from "#cluster/protocol";

/** What is looked up of a request. */
export interface PrefixQuery {
  /** Null: the router does not know the model's tokens. */
  readonly tokens: Uint32Array | null;
  readonly salt: string | null;
  readonly lora: string | null;
}

/** How much of a prompt each worker has, of whatever index it is in. */
export interface PrefixFinder {
  /** One per worker; null: nothing, or nothing is known. */
  find(query: PrefixQuery, workers: readonly WorkerInfo[]): readonly (PrefixMatch | null)[];
  /** A worker got the request, and will have its prompt. */
  routed(query: PrefixQuery, worker: WorkerInfo): void;
}

/** Where a worker's blocks are indexed. */
export interface IndexPlace {
  readonly lookup: PrefixLookup;
  readonly number: WorkerNumber;
  readonly model: string;
  readonly blockTokens: number;
  /** Told what was routed: an index of guesses, beside the announced blocks or instead of them. */
  readonly predictions?: PrefixPredictions;
}

/** An index that believes what was routed, for a while. */
export interface PrefixPredictions extends PrefixLookup {
  routed(
    worker: WorkerNumber,
    tokens: { readonly scope: KvScope; readonly keys: Uint32Array },
  ): void;
}

/** Looks a prompt up once per index, model and block size, and takes the best of what is known. */
export class IndexedPrefixes implements PrefixFinder {
  readonly #placeOf: (worker: WorkerInfo) => IndexPlace | null;

  /** `placeOf`: null where nothing is known of the worker's blocks. */
  constructor(placeOf: (worker: WorkerInfo) => IndexPlace | null) {
    this.#placeOf = placeOf;
  }

  find(query: PrefixQuery, workers: readonly WorkerInfo[]): readonly (PrefixMatch | null)[] {
    const found = new Lookups(query);
    return workers.map((worker) => {
      const place = this.#placeOf(worker);
      return place === null ? null : found.of(place);
    });
  }

  routed(query: PrefixQuery, worker: WorkerInfo): void {
    const place = this.#placeOf(worker);
    if (query.tokens === null || place?.predictions === undefined) return;
    const scope = scopeOf(query, place);
    place.predictions.routed(place.number, place.predictions.blocksOf(scope, query.tokens));
  }
}

/** The answers to one prompt, each asked for once. */
class Lookups {
  readonly #query: PrefixQuery;
  readonly #answers = new Map<PrefixLookup, Map<string, ReadonlyMap<WorkerNumber, PrefixMatch>>>();

  constructor(query: PrefixQuery) {
    this.#query = query;
  }

  of(place: IndexPlace): PrefixMatch | null {
    const announced = this.#find(place.lookup, place);
    if (place.predictions === undefined) return announced;
    return better(announced, this.#find(place.predictions, place));
  }

  #find(lookup: PrefixLookup, place: IndexPlace): PrefixMatch | null {
    const { tokens } = this.#query;
    if (tokens === null) return null;
    const answers = this.#answers.get(lookup) ?? new Map();
    this.#answers.set(lookup, answers);
    const key = `${place.blockTokens} ${place.model}`;
    let matches: ReadonlyMap<WorkerNumber, PrefixMatch> | undefined = answers.get(key);
    if (matches === undefined) {
      const prompt = lookup.blocksOf(scopeOf(this.#query, place), tokens);
      matches = new Map(lookup.find(prompt).map((match) => [match.worker, match]));
      answers.set(key, matches);
    }
    return matches.get(place.number) ?? null;
  }
}

function scopeOf({ salt, lora }: PrefixQuery, { model, blockTokens }: IndexPlace): KvScope {
  return { model, blockTokens, salt, lora, group: 0 };
}

/** What was routed will be on the device: a guess counts where it goes beyond what is announced. */
function better(announced: PrefixMatch | null, guess: PrefixMatch | null): PrefixMatch | null {
  if (announced === null || guess === null) return announced ?? guess;
  const [device, host, any] = announced.levels;
  const guessed = guess.levels[0];
  return {
    worker: announced.worker,
    levels: [Math.max(device, guessed), Math.max(host, guessed), Math.max(any, guessed)],
  };
}
