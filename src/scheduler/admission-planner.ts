/** Plans which waiting sequences start in a step. */
import { matchParts, withoutPartial } from "#kvcache";
import type { PlanDraft } from "./plan-draft.ts";
import { PrefixFinder, type SharedPrefix } from "./prefix-finder.ts";
import type { Sequence } from "./sequence.ts";

/** Plans sequences that hold no blocks. */
export class AdmissionPlanner {
  readonly #draft: PlanDraft;
  readonly #prefixes: PrefixFinder;

  constructor(draft: PlanDraft) {
    this.#draft = draft;
    this.#prefixes = new PrefixFinder(draft);
  }

  /** False: it does not fit now, and no later sequence may overtake it. */
  tryAdmit(sequence: Sequence): boolean {
    const draft = this.#draft;
    // Keeps its place, and those behind it need not wait for its grammar or its blocks.
    if (sequence.state.phase === "waiting" && sequence.state.for !== "turn") return true;
    // Preempted while a step samples its token: it cannot be recomputed before that arrives.
    if (sequence.awaitedTokens > 0) return false;
    if (this.#sharesWhatComes(sequence)) return false;
    const seats = draft.seatsFor([sequence]);
    if (seats > draft.seats) return this.#lackRoom();
    const prefix = this.#prefixes.find(sequence, lengthOf(sequence));
    if (this.#planLoad(sequence, prefix)) return true;
    const done = this.#tryPrefix(sequence, prefix) || this.#tryWithoutPartial(sequence, prefix);
    if (done) draft.seats -= seats;
    return done;
  }

  /**
   * Whether beams that resumed earlier still compute the prompt that all share: with copies of
   * their own they might not fit the pool together.
   */
  #sharesWhatComes(sequence: Sequence): boolean {
    const { group, promptLength } = sequence;
    const { cache } = this.#draft.state;
    if (group.kind !== "beams" || !group.forked || !cache.prefixCaching) return false;
    const shared = promptLength - (promptLength % cache.blockTokens);
    const ends = new Map(this.#draft.items.map((item) => [item.sequence, item.start + item.count]));
    return this.#draft.active.some(
      (other) => other.group === group && (ends.get(other) ?? other.computedTokens) < shared,
    );
  }

  /** Whether the stored prefix continues on disk, and is fetched before the sequence starts. */
  #planLoad(sequence: Sequence, { match, tokens }: SharedPrefix): boolean {
    const onDisk = matchParts(match).map((part) => part.onDisk.length);
    const longest = Math.max(...onDisk);
    if (longest === 0 || sequence.loaded || tokens > match.tokens) return false;
    const { cache, estimates } = this.#draft.state;
    const blocks = onDisk.reduce((sum, count) => sum + count, 0);
    const end = tokens + longest * cache.blockTokens;
    const choice = { level: 2, blocks, start: tokens, end } as const;
    if (estimates?.loadPays(choice) === false) return false;
    this.#draft.loads.push({ sequence, match });
    return true;
  }

  /** A partial block, copied or taken over, may be one block too many: full blocks cost less. */
  #tryWithoutPartial(sequence: Sequence, prefix: SharedPrefix): boolean {
    const match = withoutPartial(prefix.match);
    if (match === prefix.match) return false;
    return this.#tryPrefix(sequence, { match, tokens: match.tokens });
  }

  #tryPrefix(sequence: Sequence, { match, tokens: start }: SharedPrefix): boolean {
    const draft = this.#draft;
    const { cache, config } = draft.state;
    const remaining = lengthOf(sequence) - start;
    if (!config.chunkedPrefill && remaining > draft.budget) return false;

    // A chunk may start only where all tokens fit, with windows as many as are held at once.
    const { length } = sequence.tokens;
    const room = draft.ledger.available - draft.reservedBlocks;
    const shared = cache.blocksFor(start);
    const behind = cache.groupCount * (cache.blocksFor(length) - shared);
    const atOnce = draft.state.needs.atOnce(length);
    // Checked first: counting the cost of a long match takes as long as finding it.
    if (Math.min(behind, atOnce) > room) return this.#lackRoom();
    const count = draft.capped(remaining);
    if (count === 0) return false;
    const first = cache.groupCount * (cache.blocksFor(start + count) - shared);
    const claimed = draft.ledger.costOf(match);
    const needed = Math.max(claimed + first, Math.min(claimed + behind, atOnce));
    if (needed + this.#roomForReturn(sequence) > room) return this.#lackRoom();

    draft.ledger.claim(match);
    draft.ledger.take(first);
    draft.add(sequence, start, count, match);
    return true;
  }

  /** It would fit if other sequences were preempted. */
  #lackRoom(): false {
    this.#draft.lacksRoom = true;
    return false;
  }

  /**
   * Blocks that must stay available beside a preempted sequence: for the others of its group, which
   * resume with it, and for the next blocks of all that run then. Without them it would be
   * preempted again soon. None when no other group runs, so that one sequence can always run.
   */
  #roomForReturn(sequence: Sequence): number {
    const draft = this.#draft;
    if (sequence.preemptions === 0 || !draft.othersRun(sequence)) return 0;
    const others = this.#waitingOthers(sequence);
    return draft.headroomFor(1 + others.length) + this.#blocksOfOthers(sequence, others);
  }

  /** Sequences of its group that wait behind it. */
  #waitingOthers(sequence: Sequence): readonly Sequence[] {
    const { group } = sequence;
    if (group.sequences.length === 1) return [];
    const active = new Set(this.#draft.active);
    return group.sequences.filter(
      (other) =>
        other !== sequence &&
        other.state.phase === "waiting" &&
        other.state.for !== "fork" &&
        !other.blockTable.swapped &&
        !active.has(other),
    );
  }

  /** Blocks that the others will take, with the prompt's full blocks shared if possible. */
  #blocksOfOthers(sequence: Sequence, others: readonly Sequence[]): number {
    const { cache, needs } = this.#draft.state;
    const prompt = cache.prefixCaching ? Math.floor(sequence.promptLength / cache.blockTokens) : 0;
    return others.reduce(
      (sum, { tokens }) => sum + needs.held(cache.blocksFor(tokens.length), prompt),
      0,
    );
  }
}

/**
 * Tokens to compute before sampling: resumed beams leave the last one for the step in which all
 * sample.
 */
function lengthOf({ group, tokens }: Sequence): number {
  return group.kind === "beams" && group.forked ? tokens.length - 1 : tokens.length;
}
