import { assert, TokenList } from "#base";
import {
  type BlockRetention,
  BlockTable,
  type ContentKeys,
  type Occupation,
  scopeKey,
} from "#kvcache";
import type { SequenceGroup } from "./sequence-group.ts";
import { type SequenceState, WAITING, WAITING_FOR_GRAMMAR } from "./sequence-state.ts";
import type { StopRules } from "./stop.ts";

/** A sequence of the engine; a number is never reused. */
export type SequenceId = number & { readonly kind: "SequenceId" };

/** Brands a number of the engine's counter as a sequence id. */
export function sequenceId(value: number): SequenceId {
  // The one place where integers become ids.
  return value as SequenceId;
}

/** Retention of a sequence's blocks while they are unheld. */
export interface SequenceRetention {
  /** By prompt block; the partly filled last one, too. null: no retention. */
  readonly prompt: readonly (BlockRetention | null)[];
  /** Of every block behind these. */
  readonly decode: BlockRetention;
}

/** The parts of a sequence. */
export interface SequenceOptions {
  readonly id: SequenceId;
  readonly requestId: string;
  /** At least one. An Int32Array is shared, and must not change any more; others are copied. */
  readonly promptTokenIds: ArrayLike<number>;
  /**
   * Tokens that another engine sampled behind the prompt, none of which ends it (SC32). Default:
   * none.
   */
  readonly generatedTokenIds?: ArrayLike<number>;
  readonly stop: StopRules;
  readonly arrivalMs: number;
  /** Smaller runs first under the priority policy. Default 0. */
  readonly priority?: number;
  /** Sequences of another salt never share blocks. The caller's text, whatever is in it. */
  readonly cacheSalt?: string | null;
  /** Identity of the prompt's contents beside its tokens. Default null: none. */
  readonly contentKeys?: ContentKeys | null;
  /** Default null: blocks have the default priority, or that set by other sequences. */
  readonly retention?: SequenceRetention | null;
  /**
   * Compute every prompt token, as prompt log-probabilities need. Its blocks are still shared, and
   * it reads others' when it resumes after its first token was sampled.
   */
  readonly skipReadingPrefixCache?: boolean;
  /** Not admitted before `Scheduler.grammarReady`. */
  readonly awaitsGrammar?: boolean;
  /** What transfers have held for it, and will, counts in this. Default: one of its own. */
  readonly occupation?: Occupation;
}

/** One stream of tokens made for a request. The scheduler writes it; other modules only read. */
export class Sequence {
  readonly id: SequenceId;
  readonly requestId: string;
  /** The prompt, then the sampled tokens. */
  readonly tokens: TokenList;
  readonly promptLength: number;
  readonly blockTable: BlockTable;
  readonly stop: StopRules;
  readonly arrivalMs: number;
  readonly priority: number;
  readonly retention: SequenceRetention | null;
  readonly skipReadingPrefixCache: boolean;
  state: SequenceState;
  /** Positions whose keys and values are stored, or will be by the steps that have begun. */
  computedTokens = 0;
  /** Tokens that the steps which have begun will sample. */
  awaitedTokens = 0;
  /** Drafted tokens that a step may compute and verify behind `tokens`; wanted by the engine. */
  draftTokens = 0;
  /** How many of them are the likeliest continuation. */
  likelyTokens = 0;
  /** Positions behind `computedTokens` that a step under way writes: most hold no token yet. */
  scratchTokens = 0;
  /** Its blocks on disk were fetched, or could not be: the load is not tried again. */
  loaded = false;
  /** Computes nothing, though it runs: its next sampling is not prepared (SC30). */
  held = false;
  /** The block of its next token may be shared: it was forked, or others forked from it. */
  maySharePartialBlock = false;
  /** Prompt tokens found in the cache when it, or its group's lead, was first admitted. */
  cachedTokens = 0;
  preemptions = 0;
  /** On the engine's clock; null before. */
  firstScheduledMs: number | null = null;
  firstTokenMs: number | null = null;
  #group: SequenceGroup | null = null;
  #isBeam = false;

  constructor(options: SequenceOptions) {
    this.id = options.id;
    this.requestId = options.requestId;
    const { promptTokenIds: prompt } = options;
    this.tokens = new TokenList(prompt instanceof Int32Array ? prompt : Int32Array.from(prompt));
    this.promptLength = this.tokens.length;
    const { generatedTokenIds: generated = [] } = options;
    for (let place = 0; place < generated.length; place++) this.tokens.push(generated[place] ?? 0);
    const { cacheSalt = null, contentKeys = null } = options;
    const scope = scopeKey({ loraId: null, cacheSalt });
    this.blockTable = new BlockTable(scope, contentKeys, options.occupation);
    this.stop = options.stop;
    this.arrivalMs = options.arrivalMs;
    this.priority = options.priority ?? 0;
    this.retention = options.retention ?? null;
    this.skipReadingPrefixCache = options.skipReadingPrefixCache ?? false;
    this.state = options.awaitsGrammar ? WAITING_FOR_GRAMMAR : WAITING;
  }

  /** The request's sequences, this one among them. It must have joined them. */
  get group(): SequenceGroup {
    assert(this.#group !== null, "Cannot schedule a sequence without a group");
    return this.#group;
  }

  /** One of several hypotheses of a search. */
  get isBeam(): boolean {
    return this.#isBeam;
  }

  /** Called once, by the group. */
  join(group: SequenceGroup): void {
    assert(this.#group === null, "Cannot put a sequence into two groups");
    this.#group = group;
    this.#isBeam = group.kind === "beams";
  }

  /** Replaces its sampled tokens by those of a sequence of the same prompt. */
  copyTokens(parent: Sequence): void {
    while (this.tokens.length > this.promptLength) this.tokens.pop();
    for (let place = this.promptLength; place < parent.tokens.length; place++) {
      this.tokens.push(parent.tokens.get(place));
    }
  }

  get generatedTokens(): number {
    return this.tokens.length - this.promptLength;
  }

  get finished(): boolean {
    return this.state.phase === "finished";
  }
}
