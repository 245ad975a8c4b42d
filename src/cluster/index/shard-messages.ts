/** What the index and its shards, which are threads, say to each other. */
import type { GroupBlocks, KvScope, PrefixMatch } from "#cluster/protocol";
import type { BlockNamer, HashSecret } from "./block-namer.ts";
import type { KvIndexStats } from "./kv-index.ts";

/** What a shard is started with. */
export interface ShardData {
  readonly shard: number;
  readonly shards: number;
  readonly secret: HashSecret;
  readonly bytesMax: number;
  readonly workerBlocksMax: number;
  /** [shards] batches that each has taken over. */
  readonly progress: SharedArrayBuffer;
}

export type ToShard =
  /** Changes in shared memory (change-words.ts), and scopes that were not sent before. */
  | {
      readonly type: "changes";
      readonly words: Uint32Array;
      readonly scopes: readonly (readonly [number, KvScope])[];
      /** Scopes sent before mean nothing any more. */
      readonly forgetsScopes: boolean;
    }
  | { readonly type: "find"; readonly ask: number; readonly groups: readonly GroupBlocks[] }
  | { readonly type: "stats"; readonly ask: number };

export type FromShard =
  | { readonly type: "found"; readonly ask: number; readonly matches: readonly PrefixMatch[] }
  | { readonly type: "stats"; readonly ask: number; readonly stats: KvIndexStats };

/**
 * The shard of all prompts with this first block, in all groups of layers: that of its name in
 * group 0.
 */
export function shardOf(keyLow: number, shards: number): number {
  return (keyLow >>> 4) % shards;
}

/** Whether a shard owns what begins with these tokens. */
export class ShardOwner {
  readonly #namer: BlockNamer;
  readonly #shard: number;
  readonly #shards: number;
  readonly #firstGroup = new WeakMap<KvScope, KvScope>();
  readonly #key = new Uint32Array(2);

  constructor(namer: BlockNamer, { shard, shards }: Pick<ShardData, "shard" | "shards">) {
    this.#namer = namer;
    this.#shard = shard;
    this.#shards = shards;
  }

  owns(scope: KvScope, tokens: Uint32Array): boolean {
    let first = scope.group === 0 ? scope : this.#firstGroup.get(scope);
    if (first === undefined) {
      first = { ...scope, group: 0 };
      this.#firstGroup.set(scope, first);
    }
    const block = tokens.subarray(0, scope.blockTokens);
    this.#namer.nameRun(this.#namer.rootOf(first), block, this.#key);
    return shardOf(this.#key[0]!, this.#shards) === this.#shard;
  }
}
