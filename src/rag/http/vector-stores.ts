/** Vector stores: their records, their corpora, and when they end. */
import { EngineError } from "#base";
import { HttpError } from "#server";
import type { RagServing } from "./config.ts";
import type { Corpora } from "./corpora.ts";
import type { FileRecord, StoreRecord } from "./records.ts";
import { type MemberFields, missing, type StoreFileParts, StoreFiles } from "./store-files.ts";

/** What a client says of a store. */
export interface StoreFields {
  readonly name: string;
  readonly description: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly expiresAfterDays: number | null;
}

/** The parts that vector stores stand on. */
export interface VectorStoreParts extends StoreFileParts {
  readonly corpora: Corpora;
  readonly storesMax: RagServing["storesMax"];
}

/** Last uses of stores are written down no more often. */
const ACTIVE_SECONDS = 60;
const SECONDS_PER_DAY = 86_400;

export class VectorStores {
  readonly #parts: VectorStoreParts;
  /** The files in them. */
  readonly files: StoreFiles;
  /** When stores were last used, where that is newer than their records say. */
  readonly #active = new Map<string, number>();

  constructor(parts: VectorStoreParts) {
    this.#parts = parts;
    this.files = new StoreFiles(parts);
  }

  /** Goes on where the last process stopped: files on their way in, and what is being removed. */
  resume(): void {
    for (const store of this.list()) {
      this.files.start(this.files.of(store).filter(({ status }) => status === "in_progress"));
    }
    void this.#removeLeftOvers();
  }

  /** Settles when no work is done in the background; files on their way stay so. */
  close(): Promise<void> {
    return this.files.close();
  }

  /** All stores, in the order of their creation. */
  list(): StoreRecord[] {
    return this.#parts.book.stores.filter(({ removed }) => !removed);
  }

  /** Throws HttpError 404. */
  get(id: string): StoreRecord {
    const store = this.#parts.book.store(id);
    if (store !== null && !store.removed) return store;
    throw missing("vector store", id);
  }

  /** When a store was last used. */
  lastActiveAt({ id, lastActiveAt }: StoreRecord): number {
    return Math.max(lastActiveAt, this.#active.get(id) ?? 0);
  }

  /** When it expires; null: never. */
  expiresAt(store: StoreRecord): number | null {
    const { expiresAfterDays: days } = store;
    return days === null ? null : this.lastActiveAt(store) + days * SECONDS_PER_DAY;
  }

  async create(fields: StoreFields, members: readonly MemberFields[]): Promise<StoreRecord> {
    const { book, corpora, storesMax } = this.#parts;
    if (book.storeCount >= storesMax) {
      throw new EngineError(
        "INVALID_ARGUMENT",
        `Cannot create a vector store: at most ${storesMax} are kept, current value is ` +
          `${book.storeCount}; delete some, or start the server with a larger --rag-stores-max`,
      );
    }
    book.checkRoom();
    const now = this.#parts.nowSeconds();
    const times = { createdAt: now, lastActiveAt: now };
    const state = { expired: false, removed: false };
    const store = { ...book.next("store"), ...fields, ...times, ...state };
    const records = this.files.newMembers(store, members);
    await corpora.make(store.id);
    await book.write([{ store }, ...records.map((member) => ({ member }))]);
    this.files.start(records);
    return store;
  }

  async update(store: StoreRecord, fields: Partial<StoreFields>): Promise<StoreRecord> {
    const changed = { ...store, ...fields, lastActiveAt: this.#parts.nowSeconds() };
    await this.#parts.book.write([{ store: changed }]);
    return changed;
  }

  /** The store is gone for clients when the promise resolves; its chunks at the latest later. */
  async remove(store: StoreRecord): Promise<void> {
    const removed = { ...store, removed: true };
    await this.#parts.book.write([{ store: removed }]);
    await this.#background(() => this.#empty(removed));
  }

  /** Notes that a store is used. Throws HttpError 400 where it has expired. */
  use(store: StoreRecord): StoreRecord {
    const now = this.#parts.nowSeconds();
    const expiresAt = this.expiresAt(store);
    if (store.expired || (expiresAt !== null && expiresAt <= now)) {
      throw new HttpError(
        400,
        "vector_store_expired",
        `Cannot use vector store ${store.id}: it has expired; create another one`,
      );
    }
    this.#active.set(store.id, now);
    if (now - store.lastActiveAt >= ACTIVE_SECONDS) {
      const changed = { ...store, lastActiveAt: now };
      void this.#background(() => this.#parts.book.write([{ store: changed }]));
    }
    return store;
  }

  /** Deletes a file, and takes it out of all stores. */
  async removeFile(file: FileRecord): Promise<void> {
    const { book, files } = this.#parts;
    const found = book.stores.map(({ id }) => book.member(id, file.id));
    const members = found.filter((member) => member !== null);
    await book.write(members.map((member) => ({ member: { ...member, removed: true } })));
    for (const member of members) await this.#background(() => this.files.forget(member));
    await files.remove(file);
  }

  /** Files and stores whose time has come are removed, and what could not be removed before. */
  async expire(): Promise<void> {
    const { book } = this.#parts;
    const now = this.#parts.nowSeconds();
    const isDue = (at: number | null) => at !== null && at <= now;
    for (const file of book.files) {
      if (isDue(file.expiresAt)) await this.#background(() => this.removeFile(file));
    }
    const due = this.list().filter((store) => !store.expired && isDue(this.expiresAt(store)));
    await book.write(due.map((store) => ({ store: { ...store, expired: true } })));
    await this.#removeLeftOvers();
  }

  async #removeLeftOvers(): Promise<void> {
    const { book } = this.#parts;
    for (const store of book.stores) {
      const members = book.members(store.id);
      if (store.removed || (store.expired && members.length > 0)) {
        await this.#background(() => this.#empty(store));
        continue;
      }
      for (const member of members) {
        if (member.removed) await this.#background(() => this.files.forget(member));
      }
    }
  }

  #empty(store: StoreRecord): Promise<void> {
    this.#active.delete(store.id);
    return this.files.empty(store, () => this.#parts.corpora.drop(store.id));
  }

  /** A failure is told; what is left is done at the next start. */
  async #background(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#parts.warn(String(error));
    }
  }
}
