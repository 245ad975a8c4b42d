/** Watches what prefixes the fleet had, and what one cache without end would have had. */
import type { WorkerInfo } from "#cluster/protocol";
import type { IndexedPrefixes, PrefixQuery, Routed } from "#cluster/routing";
import type { FleetCaches } from "./fleet-caches.ts";
import type { TokenOrigin } from "./prompt-reader.ts";

/** What a worker said of a request when it was over. */
export interface PromptUsage {
  readonly promptTokens: number;
  /** Null: it does not say. */
  readonly cachedTokens: number | null;
}

/** Told of one request at a worker. */
export type EndWatch = (usage: PromptUsage | null) => void;

export interface HitWatchOptions {
  readonly prefixes: IndexedPrefixes;
  readonly caches: FleetCaches;
  /** One line for operators. */
  readonly say: (message: string) => void;
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

  /** A request was routed; to be called back when it is over. */
  routed(query: PrefixQuery, { worker, served }: Routed, origin: TokenOrigin): EndWatch {
    const { prefixes, caches } = this.#options;
    this.counts.origins[origin]++;
    const answer = prefixes.answerOf(query, worker);
    if (answer === null || caches.placeOf(worker) === null || query.tokens === null)
      return NOTHING_ASKED;
    this.counts.asked++;
    if (answer.matches.size > 0) this.counts.answered++;
    const { length } = query.tokens;
    return (usage) => {
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

const NUMBER = { prompt: /"prompt_tokens":\s*(\d+)/, cached: /"cached_tokens":\s*(\d+)/ };
/** Usage is at the end of an answer. */
const TAIL_BYTES = 2048;

/** Usage of an answer in JSON, found without parsing it; null: there is none. */
export function usageIn(body: Buffer): PromptUsage | null {
  const tail = body.toString("latin1", Math.max(0, body.length - TAIL_BYTES));
  const at = tail.lastIndexOf('"usage"');
  const prompt = at < 0 ? null : NUMBER.prompt.exec(tail.slice(at));
  if (prompt === null) return null;
  const cached = NUMBER.cached.exec(tail.slice(at));
  return {
    promptTokens: Number(prompt[1]),
    cachedTokens: cached === null ? null : Number(cached[1]),
  };
}
