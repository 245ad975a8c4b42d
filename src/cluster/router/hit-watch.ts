/** Watches what prefixes the fleet had, and what one cache without end would have had. */
import type { WorkerInfo } from "#cluster/protocol";
import type { IndexedPrefixes, PrefixQuery, Routed } from "#cluster/routing";
import type { FleetCaches } from "./fleet-caches.ts";
import type { ComputedPrompt } from "./kv-fills.ts";
import type { TokenOrigin } from "./prompt-reader.ts";
import type { EndWatch, PromptUsage } from "./prompt-usage.ts";
import type { TokenCounts, TokenWatch } from "./token-watch.ts";

/** A request, with its id where it has one. */
type RoutedQuery = PrefixQuery & { readonly id?: string | undefined };

export interface HitWatchOptions {
  readonly prefixes: IndexedPrefixes;
  readonly caches: FleetCaches;
  readonly tokens: TokenWatch;
  /** Told of prompts that workers which announce their blocks have computed. */
  readonly onComputed: (prompt: ComputedPrompt) => void;
  /** One line for operators. */
  readonly say: (message: string) => void;
  /** Told what a worker says that it held for a request: bytes times seconds. */
  readonly onHeld?: (request: string, workerId: string, kvByteSeconds: number) => void;
}

/** Sums since the start. */
export interface HitCounts {
  /** Prompts by where their tokens came from. */
  readonly origins: Record<TokenOrigin, number>;
  /** Prompts that the index was asked for, and those that it knew a part of. */
  asked: number;
  answered: number;
  /** Prompts that have another number of tokens at their worker than at the router. */
  mismatched: number;
}

export class HitWatch {
  readonly counts: HitCounts = {
    origins: { router: 0, worker: 0, text: 0, none: 0 },
    asked: 0,
    answered: 0,
    mismatched: 0,
  };
  readonly #options: HitWatchOptions;
  readonly #told = new Set<string>();

  constructor(options: HitWatchOptions) {
    this.#options = options;
  }

  /** What workers announced of prompts, beside what was computed here. */
  get announced(): TokenCounts {
    this.#options.tokens.look();
    return this.#options.tokens.counts;
  }

  /** A request was routed; to be called back when it is over. */
  routed(query: RoutedQuery, routed: Routed, origin: TokenOrigin): EndWatch {
    const watch = this.#watch(query, routed, origin);
    const { onHeld } = this.#options;
    if (onHeld === undefined) return watch;
    return (usage, isComplete) => {
      watch(usage, isComplete);
      const held = usage?.kvByteSeconds ?? null;
      if (held !== null) onHeld(query.id ?? "", routed.worker.id, held);
    };
  }

  #watch(query: PrefixQuery, { worker, served }: Routed, origin: TokenOrigin): EndWatch {
    const { prefixes, caches, tokens: watch } = this.#options;
    this.counts.origins[origin]++;
    const answer = prefixes.answerOf(query, worker);
    const place = caches.placeOf(worker, query);
    if (answer === null || place === null || query.tokens === null) return NOTHING_ASKED;
    this.counts.asked++;
    if (answer.matches.size > 0) this.counts.answered++;
    const { tokens } = query;
    const { length } = tokens;
    const { number } = place;
    const { prompt, matches } = answer;
    const isKnown = 2 * (matches.get(number)?.levels[2] ?? 0) >= prompt.keys.length;
    const told =
      place.announces && !isKnown
        ? watch.routed({ workerId: worker.id, number, prompt, tokens })
        : null;
    return (usage, isComplete) => {
      told?.(usage, isComplete);
      if (isComplete && place.announces) {
        const seenBlocks = answer.before?.length ?? 0;
        this.#options.onComputed({ query, tokens, worker, seenBlocks });
      }
      if (usage === null) return;
      if (origin !== "text" && usage.promptTokens !== length) this.#mismatch(worker, usage, length);
      served(usage.cachedTokens);
    };
  }

  /** Others lost all their hits so, and nothing said it. */
  #mismatch({ id }: WorkerInfo, { promptTokens }: PromptUsage, own: number): void {
    this.counts.mismatched++;
    if (this.#told.has(id)) return;
    this.#told.add(id);
    this.#options.say(
      `worker ${id} counts ${promptTokens} tokens of a prompt where the router counts ${own}: ` +
        "what its cache has is not found; see perigee_router_token_mismatches_total",
    );
  }
}

const NOTHING_ASKED: EndWatch = () => {};
