/**
 * Matches where layers are in several groups: a prefix counts as far as every group has it.
 */
import { type GroupMatch, groupScope, type LookUp, type PrefixMatch } from "#kvcache/contents";

/** How the groups of a cache are searched. */
export interface GroupSearch {
  readonly groups: number;
  readonly blockTokens: number;
  /** The longest stored prefix of a prompt in the group of its scope; `further` is not read. */
  find(prompt: LookUp): PrefixMatch;
}

/**
 * The longest prefix that all groups have, on disk included. Blocks that some group has on disk
 * alone end the prefix for all; its `onDisk` lists them.
 */
export function matchGroups(prompt: LookUp, search: GroupSearch): PrefixMatch {
  const { blockTokens } = search;
  let parts = findAll(prompt, search);
  for (;;) {
    // A prefix may be shorter in a group than what is stored of it, where its end is in the middle
    // of a block: cut until all agree.
    const shared = Math.min(...parts.map((part) => reachOf(part, blockTokens)));
    if (parts.every((part) => reachOf(part, blockTokens) === shared)) break;
    parts = findAll(cut(prompt, shared), search);
  }
  const tokens = Math.min(...parts.map((part) => part.tokens));
  const near = parts.map((part, group) => {
    if (part.tokens === tokens) return part;
    const shorter = search.find(inGroup(cut(prompt, tokens), group));
    return { ...shorter, onDisk: part.onDisk };
  });
  const [first, ...further] = near;
  if (first === undefined) throw new Error("A cache has at least one group");
  return { ...first, further };
}

function findAll(prompt: LookUp, { groups, find }: GroupSearch): PrefixMatch[] {
  return Array.from({ length: groups }, (_, group) => find(inGroup(prompt, group)));
}

function inGroup(prompt: LookUp, group: number): LookUp {
  return { ...prompt, scope: groupScope(prompt.scope, group) };
}

/** The prompt's first `tokens` tokens, and the one that is always computed. */
function cut(prompt: LookUp, tokens: number): LookUp {
  return { ...prompt, tokens: prompt.tokens.subarray(0, tokens + 1) };
}

/** Tokens of a match once its blocks on disk are loaded. */
function reachOf({ tokens, onDisk }: GroupMatch, blockTokens: number): number {
  return tokens + onDisk.length * blockTokens;
}
