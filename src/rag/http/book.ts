/** All records of files and vector stores, in memory and in a journal. */
import { EngineError } from "#base";
import { LIMITS } from "./config.ts";
import { type IdKind, makeId } from "./identifiers.ts";
import { Journal, type JournalEntry } from "./journal.ts";
import type { BatchRecord, FileRecord, MemberRecord, StoreRecord } from "./records.ts";

/** Numbers of files of a store, by status. */
export interface FileCounts {
  readonly in_progress: number;
  readonly completed: number;
  readonly failed: number;
  readonly cancelled: number;
  readonly total: number;
}

/** What a store has, in numbers. */
export interface StoreCounts {
  readonly files: FileCounts;
  /** Of all chunks' texts. */
  readonly usageBytes: number;
}

/** One change; `null` as record: it is gone. */
export type Change =
  | { readonly file: FileRecord; readonly gone?: boolean }
  | { readonly store: StoreRecord; readonly gone?: boolean }
  | { readonly member: MemberRecord; readonly gone?: boolean }
  | { readonly batch: BatchRecord; readonly gone?: boolean };

/** What a store has, by id. */
interface Shelf {
  readonly members: Map<string, MemberRecord>;
  readonly batches: Map<string, BatchRecord>;
}

/** The records. Changes are seen at once, and durable when `write` resolves. */
export class Book {
  readonly #journal: Journal;
  readonly #files = new Map<string, FileRecord>();
  readonly #stores = new Map<string, StoreRecord>();
  readonly #shelves = new Map<string, Shelf>();
  #memberCount = 0;
  #fileBytes = 0;
  #serial = 0;

  private constructor(journal: Journal) {
    this.#journal = journal;
    for (const [key, value] of journal.values) this.#apply(changeOf(key, value));
  }

  /** Opens or makes the records at `path`. Throws IO. */
  static async open(path: string): Promise<Book> {
    return new Book(await Journal.open(path));
  }

  /** A fresh id and its place in the order of creation. */
  next(kind: IdKind): { readonly id: string; readonly serial: number } {
    const serial = ++this.#serial;
    return { id: makeId(kind, serial), serial };
  }

  /** All files, in the order of their upload. */
  get files(): FileRecord[] {
    return bySerial(this.#files.values());
  }

  get fileCount(): number {
    return this.#files.size;
  }

  /** Of all files together. */
  get fileBytes(): number {
    return this.#fileBytes;
  }

  /** All stores, those that are being removed included, in the order of their creation. */
  get stores(): StoreRecord[] {
    return bySerial(this.#stores.values());
  }

  get storeCount(): number {
    return this.#stores.size;
  }

  /** Files in all stores together. */
  get memberCount(): number {
    return this.#memberCount;
  }

  file(id: string): FileRecord | null {
    return this.#files.get(id) ?? null;
  }

  store(id: string): StoreRecord | null {
    return this.#stores.get(id) ?? null;
  }

  /** A file's place in a store; null: it is not there. */
  member(storeId: string, fileId: string): MemberRecord | null {
    return this.#shelves.get(storeId)?.members.get(fileId) ?? null;
  }

  /** A store's files, those that are being removed included, in the order of their upload. */
  members(storeId: string): MemberRecord[] {
    return bySerial(this.#shelves.get(storeId)?.members.values() ?? []);
  }

  /** Numbers of a store's files, those that are being removed apart, and their bytes. */
  counts(storeId: string): StoreCounts {
    const files = { in_progress: 0, completed: 0, failed: 0, cancelled: 0, total: 0 };
    let usageBytes = 0;
    for (const member of this.#shelves.get(storeId)?.members.values() ?? []) {
      if (member.removed) continue;
      files[member.status]++;
      files.total++;
      usageBytes += member.usageBytes;
    }
    return { files, usageBytes };
  }

  memberCountOf(storeId: string): number {
    return this.#shelves.get(storeId)?.members.size ?? 0;
  }

  batch(storeId: string, id: string): BatchRecord | null {
    return this.#shelves.get(storeId)?.batches.get(id) ?? null;
  }

  /** A store's batches, in the order of their creation. */
  batches(storeId: string): BatchRecord[] {
    return bySerial(this.#shelves.get(storeId)?.batches.values() ?? []);
  }

  /** Throws INVALID_ARGUMENT where more records would be too many. */
  checkRoom(): void {
    if (this.#journal.liveBytes < LIMITS.recordBytes) return;
    throw new EngineError(
      "INVALID_ARGUMENT",
      `Cannot keep more records: they may have ${LIMITS.recordBytes} bytes, current value is ` +
        `${this.#journal.liveBytes}; delete files or vector stores`,
    );
  }

  /** Rejects with IO where the disk fails. */
  write(changes: readonly Change[]): Promise<void> {
    for (const change of changes) this.#apply(change);
    return this.#journal.write(changes.map(entryOf));
  }

  close(): Promise<void> {
    return this.#journal.close();
  }

  #apply(change: Change): void {
    const isGone = change.gone === true;
    if ("file" in change) this.#applyFile(change.file, isGone);
    else if ("store" in change) this.#applyStore(change.store, isGone);
    else if ("member" in change) this.#applyMember(change.member, isGone);
    else {
      const { batches } = this.#shelf(change.batch.storeId);
      set(batches, change.batch.id, isGone ? null : change.batch);
      this.#see(change.batch.serial);
    }
  }

  #applyFile(file: FileRecord, isGone: boolean): void {
    this.#fileBytes += (isGone ? 0 : file.bytes) - (this.#files.get(file.id)?.bytes ?? 0);
    set(this.#files, file.id, isGone ? null : file);
    this.#see(file.serial);
  }

  #applyStore(store: StoreRecord, isGone: boolean): void {
    set(this.#stores, store.id, isGone ? null : store);
    if (isGone) {
      this.#memberCount -= this.memberCountOf(store.id);
      this.#shelves.delete(store.id);
    }
    this.#see(store.serial);
  }

  #applyMember(member: MemberRecord, isGone: boolean): void {
    const { members } = this.#shelf(member.storeId);
    const before = members.size;
    set(members, member.fileId, isGone ? null : member);
    this.#memberCount += members.size - before;
  }

  #shelf(storeId: string): Shelf {
    const shelf = this.#shelves.get(storeId) ?? { members: new Map(), batches: new Map() };
    this.#shelves.set(storeId, shelf);
    return shelf;
  }

  #see(serial: number): void {
    this.#serial = Math.max(this.#serial, serial);
  }
}

function bySerial<R extends { readonly serial: number }>(records: Iterable<R>): R[] {
  return [...records].sort((a, b) => a.serial - b.serial);
}

function set<Key, Value>(map: Map<Key, Value>, key: Key, value: Value | null): void {
  if (value === null) map.delete(key);
  else map.set(key, value);
}

function entryOf(change: Change): JournalEntry {
  const [key, value] = keyed(change);
  return { key, value: change.gone === true ? null : value };
}

function keyed(change: Change): readonly [string, object] {
  if ("file" in change) return [`file ${change.file.id}`, change.file];
  if ("store" in change) return [`store ${change.store.id}`, change.store];
  if ("batch" in change) return [`batch ${change.batch.id}`, change.batch];
  const { storeId, fileId } = change.member;
  return [`member ${storeId} ${fileId}`, change.member];
}

function changeOf(key: string, value: object): Change {
  const [kind] = key.split(" ", 1);
  // Only this class writes the journal: a record is what its key says.
  if (kind === "file") return { file: value as FileRecord };
  if (kind === "store") return { store: value as StoreRecord };
  if (kind === "member") return { member: value as MemberRecord };
  return { batch: value as BatchRecord };
}
