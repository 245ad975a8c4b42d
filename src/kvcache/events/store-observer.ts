import { assert } from "#base";
import {
  type BlockId,
  type CacheLevel,
  type ContentIndex,
  groupOfScope,
  type KvEventDiff,
  type NodeId,
  parseExtra,
  parseScope,
} from "#kvcache/contents";
import {
  type BlockContent,
  type BlockHashAlgorithm,
  type BlockHasher,
  createBlockHasher,
} from "#kvcache/naming";
import type { KvSnapshot, SnapshotBlock, StoredBlock } from "./kv-event.ts";
import type { KvEventQueue } from "./kv-event-queue.ts";

/** The consumers of changes, and the hashers that name contents for them. */
export interface ObserverParts {
  /** Names for events; null: there are no events. */
  readonly events: { readonly hasher: BlockHasher; readonly queue: KvEventQueue } | null;
  /** Names for files; null: nothing goes to disk. May be the hasher of the events. */
  readonly files: BlockHasher | null;
}

/** The contents that are observed. */
export interface ObservedContents {
  readonly index: ContentIndex;
  /** The priority of a block of any level. */
  readonly priorityOf: (block: BlockId) => number;
}

/**
 * Keeps the names of stored contents, and emits an event for every change. Without events and files
 * it does nothing.
 */
export class StoreObserver {
  readonly #parts: ObserverParts;
  readonly #hashers: readonly BlockHasher[];
  readonly #index: ContentIndex;
  readonly #priorityOf: (block: BlockId) => number;

  constructor(parts: ObserverParts, { index, priorityOf }: ObservedContents) {
    this.#parts = parts;
    this.#index = index;
    this.#priorityOf = priorityOf;
    const hashers = [parts.events?.hasher, parts.files];
    this.#hashers = [...new Set(hashers)].filter((hasher): hasher is BlockHasher => !!hasher);
  }

  /** Called once the node has its first block. */
  stored(node: NodeId): void {
    if (this.#hashers.length === 0) return;
    const content = contentOf(this.#index, node);
    const parent = this.#index.tree.parentOf(node);
    for (const hasher of this.#hashers) hasher.set(node, parent, content);
    const { events } = this.#parts;
    if (events === null) return;
    const parentHash = parent === null ? null : events.hasher.hashOf(parent);
    const blocks = [this.#storedBlock(node, content)];
    events.queue.emit({ type: "stored", parentHash, blocks }, this.#groupOf(node));
  }

  /** Called before the node is removed. */
  removed(node: NodeId): void {
    const { events } = this.#parts;
    if (events === null) return;
    const hashes = [events.hasher.hashOf(node)];
    events.queue.emit({ type: "removed", hashes }, this.#groupOf(node));
  }

  /** Contents changed their level or priority; null: unchanged. */
  updated(node: NodeId, level: KvEventDiff<CacheLevel> | null, priority: KvEventDiff | null): void {
    const { events } = this.#parts;
    if (events === null) return;
    const hash = events.hasher.hashOf(node);
    events.queue.emit({ type: "updated", hash, level, priority }, this.#groupOf(node));
  }

  /** Called before all contents are cleared. */
  cleared(): void {
    const { events } = this.#parts;
    if (events === null) return;
    const byGroup = new Map<number, bigint[]>();
    for (const node of this.#index.tree.nodes()) {
      const group = this.#groupOf(node);
      const hashes = byGroup.get(group);
      if (hashes === undefined) byGroup.set(group, [events.hasher.hashOf(node)]);
      else hashes.push(events.hasher.hashOf(node));
    }
    for (const [group, hashes] of byGroup) events.queue.emit({ type: "cleared", hashes }, group);
  }

  /**
   * The name of a node's file: hexadecimal digits of the digest of its whole history, and the group
   * of layers where that is not the first.
   */
  fileKeyOf(node: NodeId): string {
    const digest = Buffer.from(this.#parts.files?.digestOf(node) ?? []).toString("hex");
    const group = this.#groupOf(node);
    return group === 0 ? digest : `${digest}-g${group}`;
  }

  /** All stored contents. Costs a scan. Null without events. */
  snapshotBlocks(): KvSnapshot["blocks"] | null {
    const { events } = this.#parts;
    const index = this.#index;
    if (events === null) return null;
    const blocks: SnapshotBlock[] = [];
    for (const node of index.tree.nodes()) {
      const parent = index.tree.parentOf(node);
      const parentHash = parent === null ? null : events.hasher.hashOf(parent);
      const group = this.#groupOf(node);
      const stored = this.#storedBlock(node, contentOf(index, node));
      blocks.push({ ...stored, parentHash, ...(group > 0 && { group }) });
    }
    return blocks;
  }

  #groupOf(node: NodeId): number {
    return groupOfScope(this.#index.tree.scopeOf(node));
  }

  #storedBlock(node: NodeId, content: BlockContent): StoredBlock {
    const { events } = this.#parts;
    const block = this.#index.blockOf(node);
    assert(events !== null, "Cannot describe a block for events: the cache records none");
    return {
      hash: events.hasher.hashOf(node),
      tokenIds: Array.from(content.tokens),
      ...(content.extraIds === undefined ? {} : { extraIds: Array.from(content.extraIds) }),
      level: this.#index.levelOf(block),
      priority: this.#priorityOf(block),
      multimodalKeys: content.multimodalKeys,
      loraId: content.loraId,
      cacheSalt: content.cacheSalt,
    };
  }
}

/** The part of a cache's shape that decides how its contents are named. */
export interface ObservedShape {
  readonly blocks: number;
  readonly hostBlocks?: number;
  readonly diskBlocks?: number;
  /** The algorithm of the hashes in events; null: there are no events. */
  readonly events?: BlockHashAlgorithm | null;
}

/** The observer that a cache of this shape needs; `queue`: where its events go. */
export function createObserver(
  shape: ObservedShape,
  contents: ObservedContents,
  queue: KvEventQueue | null,
): StoreObserver {
  const { blocks, hostBlocks = 0, diskBlocks = 0, events: algorithm = null } = shape;
  const nodes = blocks + hostBlocks + diskBlocks;
  const hasher = algorithm === null ? null : createBlockHasher(algorithm, { nodes });
  const isFileName = hasher?.algorithm === "sha256_cbor";
  const named = isFileName ? hasher : createFileHasher(diskBlocks, nodes);
  const events = queue === null || hasher === null ? null : { hasher, queue };
  return new StoreObserver({ events, files: diskBlocks > 0 ? named : null }, contents);
}

/** Files are named by collision-resistant digests, whatever the algorithm of the events is. */
function createFileHasher(diskBlocks: number, nodes: number): BlockHasher | null {
  return diskBlocks > 0 ? createBlockHasher("sha256_cbor", { nodes }) : null;
}

function contentOf({ tree }: ContentIndex, node: NodeId): BlockContent {
  const { extraIds, multimodalKeys } = parseExtra(tree.extraOf(node));
  return {
    tokens: tree.tokensOf(node),
    ...(extraIds === null ? {} : { extraIds }),
    multimodalKeys,
    ...parseScope(tree.scopeOf(node)),
  };
}
