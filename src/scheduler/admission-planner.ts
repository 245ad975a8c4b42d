/** Who of those that wait starts in a step. */
import { NO_MATCH, type PrefixMatch, withoutPartial } from "#kvcache";
import type { PlanDraft } from "./plan-draft.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";

/** A prefix that need not be computed: `match`, and behind it what items of this step compute. */
interface SharedPrefix {
  readonly match: PrefixMatch;
  /** Tokens in both. */
  readonly tokens: number;
}

/** Plans sequences that hold no blocks, strictly in order. */
export class AdmissionPlanner {
  readonly #draft: PlanDraft;
  #slots: number;

  constructor(draft: PlanDraft) {
    const { config, running, reservedSlots } = draft.state;
    this.#draft = draft;
    this.#slots = config.runningSequencesMax - running.length - reservedSlots;
  }

  /** Admits the first ones that fit, unless somebody had to give way in this step. */
  planAll(): void {
    const draft = this.#draft;
    // Whoever lost its blocks comes back before anyone new takes them.
    if (draft.preempts) return;
    for (const sequence of draft.state.waiting) {
      if (draft.budget === 0 || this.#slots <= 0) return;
      // Keeps its place, and those behind it need not wait for its grammar or its blocks.
      if (sequence.state.phase === "waiting" && sequence.state.for !== "turn") continue;
      if (!this.#admit(sequence)) return;
    }
  }

  /** False: it does not fit now, and nobody may overtake it. */
  #admit(sequence: Sequence): boolean {
    // Preempted while a step draws its token: it cannot be recomputed before that arrives.
    if (sequence.awaitedTokens > 0) return false;
    const { runningSequencesMax } = this.#draft.state.config;
    const slots = 1 + sequence.group.forkSlots(runningSequencesMax);
    if (slots > this.#slots) return false;
    const tokens = this.#tokensOf(sequence);
    const prefix = this.#sharedPrefix(sequence, tokens);
    const done = this.#tryPrefix(sequence, prefix) || this.#tryWithoutPartial(sequence, prefix);
    if (done) this.#slots -= slots;
    return done;
  }

  /** A copied or taken partial block may be what does not fit: full ones take less. */
  #tryWithoutPartial(sequence: Sequence, prefix: SharedPrefix): boolean {
    const match = withoutPartial(prefix.match);
    if (match === prefix.match) return false;
    return this.#tryPrefix(sequence, { match, tokens: match.tokens });
  }

  #tryPrefix(sequence: Sequence, { match, tokens: start }: SharedPrefix): boolean {
    const draft = this.#draft;
    const { cache, config } = draft.state;
    const length = this.#lengthOf(sequence);
    if (!config.chunkedPrefill && length - start > draft.budget) return false;

    // The whole prompt must fit before its first piece starts.
    const shared = cache.blocksFor(start);
    const whole = cache.blocksFor(sequence.tokens.length) - shared;
    const needed = whole + draft.ledger.costOf(match) + draft.reservedBlocks;
    if (needed + this.#roomForReturn(sequence) > draft.ledger.available) return false;

    const count = draft.capped(length - start);
    draft.ledger.claim(match);
    draft.ledger.take(cache.blocksFor(start + count) - shared);
    draft.add(sequence, start, count, match);
    return true;
  }

  /**
   * Blocks that must stay available beside a preempted sequence: for the others of its group, which
   * come back with it, and for what all that run then take next. Without them it would be preempted
   * again soon. Nothing is asked for when nobody else runs, so that somebody always goes on.
   */
  #roomForReturn(sequence: Sequence): number {
    if (sequence.preemptions === 0) return 0;
    const { group } = sequence;
    const admitted = this.#draft.items.filter((item) => item.admission !== null);
    const active = [...this.#draft.state.running, ...admitted.map((item) => item.sequence)];
    if (active.every((other) => other.group === group)) return 0;
    const others = this.#waitingOthers(sequence);
    const headroom = this.#draft.state.config.returnHeadroomBlocks;
    return this.#blocksOfOthers(sequence, others) + headroom * (active.length + 1 + others.length);
  }

  /** Sequences of its group that wait behind it. */
  #waitingOthers(sequence: Sequence): readonly Sequence[] {
    const { group } = sequence;
    if (group.sequences.length === 1) return [];
    const admitted = new Set(this.#draft.items.map((item) => item.sequence));
    return group.sequences.filter(
      (other) =>
        other !== sequence &&
        other.state.phase === "waiting" &&
        other.state.for !== "fork" &&
        !admitted.has(other),
    );
  }

  /** What they will take when they share the prompt's full blocks, if they can. */
  #blocksOfOthers(sequence: Sequence, others: readonly Sequence[]): number {
    const { cache } = this.#draft.state;
    const prompt = cache.prefixCaching ? Math.floor(sequence.promptLength / cache.blockTokens) : 0;
    return others.reduce((sum, { tokens }) => sum + cache.blocksFor(tokens.length) - prompt, 0);
  }

  /** Tokens to compute in this and later steps, before the group may go on. */
  #lengthOf(sequence: Sequence): number {
    return isReturningBeam(sequence) ? sequence.tokens.length - 1 : sequence.tokens.length;
  }

  /** What a prefix is looked for in. The last token of these is always computed. */
  #tokensOf(sequence: Sequence): Int32Array {
    return sequence.tokens.view(0, this.#lengthOf(sequence));
  }

  /** What is stored of a prompt, or what an earlier item of this step computes, if that is more. */
  #sharedPrefix(sequence: Sequence, tokens: Int32Array): SharedPrefix {
    const { cache } = this.#draft.state;
    if (sequence.skipReadingPrefixCache && !sequence.group.forked) {
      return { match: NO_MATCH, tokens: 0 };
    }
    const { scope } = sequence.blockTable;
    const match = this.#draft.ledger.usable(cache.match(scope, tokens), (blocks) =>
      cache.match(scope, tokens.subarray(0, blocks * cache.blockTokens + 1)),
    );
    const computed = this.#computedBlocks(scope, tokens, match.blocks.length);
    if (computed * cache.blockTokens <= match.tokens) return { match, tokens: match.tokens };
    return { match: withoutPartial(match), tokens: computed * cache.blockTokens };
  }

  /** Leading full blocks of a prompt that items of this step compute, if more than `matched`. */
  #computedBlocks(scope: string, tokens: Int32Array, matched: number): number {
    const { blockTokens, prefixCaching } = this.#draft.state.cache;
    if (!prefixCaching) return matched;
    const limit = Math.floor((tokens.length - 1) / blockTokens);
    let best = matched;
    for (const { sequence: other, start, count } of this.#draft.items) {
      // A step that computes one token rarely fills a block: not worth a look.
      if (count <= 1 || other.blockTable.scope !== scope) continue;
      const filled = Math.min(limit, Math.floor((start + count) / blockTokens));
      if (filled <= best) continue;
      best = Math.max(best, commonBlocks(other.tokens.view(), tokens, blockTokens, filled, best));
    }
    return best;
  }
}

/** Beams that come back compute all but their last token, and the last one all together. */
function isReturningBeam({ group }: { readonly group: SequenceGroup }): boolean {
  return group.kind === "beams" && group.forked;
}

/** Leading equal blocks of two token lists, `most` at most; 0 if no more than `least` are. */
function commonBlocks(
  a: Int32Array,
  b: Int32Array,
  blockTokens: number,
  most: number,
  least: number,
): number {
  // Where prompts differ, they mostly differ in the first block that is not stored.
  for (let at = least * blockTokens; at < (least + 1) * blockTokens; at++) {
    if (a[at] !== b[at]) return 0;
  }
  let common = 0;
  while (common < most * blockTokens && a[common] === b[common]) common++;
  return Math.floor(common / blockTokens);
}
