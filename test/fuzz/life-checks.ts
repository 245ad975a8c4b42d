/** What must be true of the cache of a random life, whatever happened. */
import {
  KvCache,
  type KvCacheShape,
  type KvSnapshot,
  matchParts,
  type NodeId,
  type PrefixMatch,
} from "#kvcache";
import { isLost, KvEventLog } from "../../src/kvcache/events/kv-event-log.ts";
import { KvMirror } from "../../src/kvcache/events/kv-mirror.ts";
import { digestIn, type PretendSequence } from "./pretend-sequence.ts";
import type { PretendFile, PretendStorage } from "./pretend-storage.ts";

/** So few that a slow reader loses some now and then. */
const EVENTS_KEPT = 40;

/** Compares a cache with the sequences that use it, and with a reader of its events. */
export class LifeChecks {
  readonly #cache: KvCache;
  readonly #storage: PretendStorage;
  readonly #mirror: KvMirror = new KvMirror();
  readonly #slowMirror: KvMirror = new KvMirror();
  readonly #log: KvEventLog = new KvEventLog(EVENTS_KEPT);
  /** How often the slow reader had lost events. */
  snapshotsTaken = 0;

  constructor(cache: KvCache, storage: PretendStorage) {
    this.#cache = cache;
    this.#storage = storage;
  }

  /** The books agree with the tables, and each sequence finds its own keys and values. */
  books(live: readonly PretendSequence[]): void {
    this.#cache.audit(live.map(({ table }) => table));
    for (const sequence of live) {
      if (sequence.isVoid) continue;
      this.sequence(sequence);
      this.published(sequence);
    }
  }

  /** All that the newest query of a sequence sees is its own. */
  sequence({ table, digests, computed }: PretendSequence): void {
    const { blockTokens } = this.#cache;
    for (const [group, part] of table.parts.entries()) {
      const unseen = this.#cache.unseenBlocks(computed, group);
      for (let position = 0; position < computed; position++) {
        const index = Math.floor(position / blockTokens);
        if (part.holds(index)) {
          this.#position(part.get(index), { position, group }, digests);
        } else if (index < unseen.from || index >= unseen.to) {
          throw new Error("A block that is seen was dropped");
        }
      }
    }
  }

  /** What is held and was made known is found. */
  published({ table, tokens, mayBeForgotten }: PretendSequence): void {
    const known = table.publishedBlocks * this.#cache.blockTokens;
    if (mayBeForgotten || table.swapped || known === 0) return;
    const { parts } = table;
    if (parts.some(({ droppedTo }) => droppedTo > 0)) return;
    // The last token of a prompt is not taken from the cache.
    const prompt = Int32Array.of(...tokens.view(0, known), 0);
    const match = this.#cache.match(table.scope, prompt, table.keys);
    for (const [group, part] of matchParts(match).entries()) {
      if (part.tip === parts[group]?.tip) continue;
      throw new Error("What a sequence made known is not found");
    }
  }

  /** What is found of a prompt has its contents, wherever it is. */
  match({ digests }: PretendSequence, match: PrefixMatch): void {
    const { blockTokens } = this.#cache;
    for (const [group, { blocks, partial, tokens }] of matchParts(match).entries()) {
      if (tokens !== match.tokens) throw new Error("Groups of layers have different prefixes");
      for (let position = 0; position < tokens; position++) {
        const block = blocks[Math.floor(position / blockTokens)] ?? partial?.block ?? -1;
        this.#position(block, { position, group }, digests);
      }
    }
  }

  /** Others that hold a block which is written see the same contents in it. */
  sharing(
    { table, digests }: PretendSequence,
    position: number,
    live: readonly PretendSequence[],
  ): void {
    for (const [group, part] of table.parts.entries()) {
      const block = part.get(Math.floor(position / this.#cache.blockTokens));
      for (const other of live) {
        const held = other.table.parts[group] ?? other.table;
        const index = held.view().indexOf(block);
        if (index < 0 || !held.holds(index)) continue;
        if (other.digests[position] !== digests[position]) {
          throw new Error(`A block that others hold is written at position ${position}`);
        }
      }
    }
  }

  /** A reader gets all events since the last call. */
  follow(): void {
    const events = this.#cache.takeEvents();
    for (const event of events) {
      if (!this.#mirror.apply(event)) throw new Error("Events have a gap");
    }
    this.#log.append(events);
  }

  /** A reader that is slow gets what is still kept, and a snapshot where that is not all. */
  followSlowly(): void {
    const snapshot = this.#snapshot();
    for (const item of this.#log.itemsFrom(this.#slowMirror.nextId)) {
      if (isLost(item)) {
        this.snapshotsTaken++;
        this.#slowMirror.load(snapshot);
      } else if (!this.#slowMirror.apply(item)) throw new Error("Events have a gap");
    }
    if (!this.#slowMirror.equals(snapshot)) throw new Error("A slow reader knows otherwise");
  }

  /** What the reader knows is what the cache has. */
  mirror(): void {
    if (this.#mirror.equals(this.#snapshot())) return;
    throw new Error("A reader of the events knows otherwise");
  }

  /** At the end. */
  nothingHeld(): void {
    for (const level of [0, 1, 2] as const) {
      if (this.#cache.poolStats(level).held > 0)
        throw new Error(`Level ${level} still holds blocks`);
    }
  }

  #snapshot(): KvSnapshot {
    const snapshot = this.#cache.snapshot();
    if (snapshot === null) throw new Error("The cache tells of no events");
    return snapshot;
  }

  #position(
    block: number,
    { position, group }: { readonly position: number; readonly group: number },
    digests: readonly number[],
  ): void {
    const expected = digestIn(digests[position] ?? 0, group);
    if (this.#storage.read(block, position % this.#cache.blockTokens) === expected) return;
    throw new Error(`Position ${position} holds another history's keys and values`);
  }
}

/** A new cache of this shape takes over the files: it stores those, and no others. */
export function checkRestart(shape: KvCacheShape, files: Iterable<PretendFile>): void {
  const cache = new KvCache(shape);
  const places = new Map<string, NodeId>();
  let waiting = [...files];
  const all = waiting;
  for (let before = -1; before !== waiting.length; ) {
    before = waiting.length;
    waiting = waiting.filter(({ file }) => {
      const parent = file.parentKey === null ? null : (places.get(file.parentKey) ?? null);
      if (file.parentKey !== null && parent === null) return true;
      const place = cache.restore(file, parent);
      if (place !== null) places.set(file.key, place);
      return false;
    });
  }
  cache.audit([]);
  if (places.size !== cache.poolStats(2).cached) throw new Error("Restored blocks were lost");
  for (const { file } of all) {
    const renamed = { ...file, key: file.key.replace(/./, "x") };
    if (cache.restore(renamed, null) !== null) throw new Error("A wrong key was accepted");
  }
  cache.audit([]);
}
