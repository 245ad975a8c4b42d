/** Beam search in the scheduler: each hypothesis has a sequence. */
import { assert, EngineError } from "#base";
import type { KvCache } from "#kvcache";
import type { BlockNeeds } from "./block-needs.ts";
import type { Sequence } from "./sequence.ts";
import type { SequenceGroup } from "./sequence-group.ts";
import { generatedTokensMax } from "./stop.ts";

/** One hypothesis: the live beam that it continues, and its next token. */
export interface BeamContinuation {
  readonly parent: Sequence;
  readonly tokenId: number;
}

/** The limits of a search. */
export interface BeamLimits {
  readonly cache: KvCache;
  readonly needs: BlockNeeds;
  readonly contextTokensMax: number;
  readonly runningSequencesMax: number;
}

/**
 * Throws INVALID_ARGUMENT for more beams than may run and PROMPT_TOO_LONG for beams whose blocks
 * the pool can never hold: beams step together or not at all, so all must fit at once.
 */
export function checkBeams(group: SequenceGroup, limits: BeamLimits): void {
  const width = group.sequences.length;
  const { cache, needs, contextTokensMax, runningSequencesMax } = limits;
  if (width > runningSequencesMax) {
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot admit request: at most ${runningSequencesMax} beams may run, ` +
        `current value is ${width}; lower beamWidth or raise runningSequencesMax`,
      { param: "beamWidth" },
    );
  }
  const { promptLength, stop } = group.lead;
  // The last token of a beam is sampled but never computed.
  const tokens = promptLength + generatedTokensMax(stop, { promptLength, contextTokensMax }) - 1;
  const blocks = needs.ofBeams(width, promptLength, tokens);
  if (blocks <= cache.totalBlocks) return;
  throw new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot admit request: its ${width} beams of up to ${tokens + 1} tokens need ${blocks} ` +
      `blocks, the KV pool has ${cache.totalBlocks}; ` +
      "lower beamWidth or maxTokens, or raise poolBytes",
    { param: "beamWidth" },
  );
}

/**
 * Gives each hypothesis of `next` a sequence, which then has its tokens and shares its blocks, and
 * returns these in order. The first hypothesis that continues a beam keeps the beam's sequence;
 * further ones take sequences of beams that no hypothesis continues. The remaining sequences are
 * not changed.
 */
export function regroup(
  group: SequenceGroup,
  next: readonly BeamContinuation[],
  cache: KvCache,
): readonly Sequence[] {
  const parents = new Set(next.map(({ parent }) => parent));
  const spare = group.live.filter((sequence) => !parents.has(sequence));
  const kept = new Set<Sequence>();
  const beams = next.map(({ parent }) => {
    assert(parent.group === group && !parent.finished, "Cannot continue a beam that is not there");
    if (!kept.has(parent)) {
      kept.add(parent);
      return parent;
    }
    const freed = spare.shift();
    assert(freed !== undefined, "Cannot continue more beams than the group has");
    fork(parent, freed, cache);
    return freed;
  });
  // After all forks, since these copy their parent's tokens.
  for (const [place, { tokenId }] of next.entries()) beams[place]?.tokens.push(tokenId);
  return beams;
}

/** A beam without a continuation becomes a fork of `parent`. */
function fork(parent: Sequence, freed: Sequence, cache: KvCache): void {
  freed.copyTokens(parent);
  cache.release(freed.blockTable);
  cache.fork(parent.blockTable, freed.blockTable);
  freed.computedTokens = parent.computedTokens;
  freed.maySharePartialBlock = true;
  parent.maySharePartialBlock = true;
}
