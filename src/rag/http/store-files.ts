/** Files in vector stores: on their way in, there, and on their way out. */
import { EngineError } from "#base";
import { HttpError } from "#server";
import type { Book, Change, StoreCounts } from "./book.ts";
import { LIMITS } from "./config.ts";
import { Exclusive } from "./exclusive.ts";
import type { FileIngest, IngestOutcome } from "./file-ingest.ts";
import { IngestQueue, type QueuedFile } from "./ingest-queue.ts";
import type { BatchRecord, Chunking, MemberRecord, StoreRecord } from "./records.ts";
import type { UploadedFiles } from "./uploaded-files.ts";

/** A file that is to be put into a store. */
export interface MemberFields {
  readonly fileId: string;
  readonly attributes: MemberRecord["attributes"];
  readonly chunking: Chunking;
}

/** The parts that files of vector stores stand on. */
export interface StoreFileParts {
  readonly book: Book;
  readonly files: UploadedFiles;
  readonly ingest: FileIngest;
  /** Stores whose files are put in at the same time. */
  readonly ingestJobs: number;
  /** Unix time. */
  nowSeconds(): number;
  /** Work in the background has failed, and goes on. */
  warn(message: string): void;
}

export class StoreFiles {
  readonly #parts: StoreFileParts;
  readonly #queue: IngestQueue;
  /** Changes of what is in a store, by store. */
  readonly #exclusive = new Exclusive();

  constructor(parts: StoreFileParts) {
    this.#parts = parts;
    const { ingest, ingestJobs: jobs } = parts;
    this.#queue = new IngestQueue({
      ...{ ingest, jobs },
      onDone: (queued, outcome) => this.#settle(queued, outcome),
      onRetry: (error) => parts.warn(`Cannot put files into a vector store yet: ${String(error)}`),
    });
  }

  /** Settles when no work is done in the background; files on their way stay so. */
  async close(): Promise<void> {
    await this.#queue.close();
    await this.#exclusive.idle();
  }

  /** Files of a store, in the order of their upload. */
  of(store: StoreRecord): MemberRecord[] {
    return this.#parts.book.members(store.id).filter(({ removed }) => !removed);
  }

  /** Null: it is not there, or on its way out. */
  find(storeId: string, fileId: string): MemberRecord | null {
    const member = this.#parts.book.member(storeId, fileId);
    return member?.removed === false ? member : null;
  }

  /** Throws HttpError 404. */
  get(store: StoreRecord, fileId: string): MemberRecord {
    const member = this.find(store.id, fileId);
    if (member !== null) return member;
    throw missing(`file in vector store ${store.id}`, fileId);
  }

  /** Puts files into a store. They are on their way when the promise resolves. */
  attach(store: StoreRecord, fields: readonly MemberFields[]): Promise<MemberRecord[]> {
    return this.#attach(store, fields, []);
  }

  /** Puts files into a store that are asked for together. */
  async attachBatch(store: StoreRecord, fields: readonly MemberFields[]): Promise<BatchRecord> {
    const batch: BatchRecord = {
      ...this.#parts.book.next("batch"),
      ...{ storeId: store.id, createdAt: this.#parts.nowSeconds(), cancelled: false },
      fileIds: [...new Set(fields.map(({ fileId }) => fileId))],
    };
    await this.#attach(store, fields, [{ batch }, ...this.#surplus(store)]);
    return batch;
  }

  /** Other attributes of a file: its chunks are stored anew. */
  updateMember(
    { storeId, fileId }: MemberRecord,
    attributes: MemberRecord["attributes"],
  ): Promise<MemberRecord> {
    const { book } = this.#parts;
    return this.#exclusive.run(storeId, async () => {
      await this.#queue.cancel(storeId, new Set([fileId]));
      const current = this.get(this.#alive(storeId), fileId);
      const changed: MemberRecord = { ...current, attributes, status: "in_progress", error: null };
      await book.write([{ member: changed }]);
      this.start([changed]);
      return changed;
    });
  }

  /** Takes a file out of a store; it is gone for clients when the promise resolves. */
  async detach(member: MemberRecord): Promise<void> {
    await this.#parts.book.write([{ member: { ...member, removed: true } }]);
    await this.#background(() => this.forget(member));
  }

  /** A store's files in numbers. */
  counts(store: StoreRecord): StoreCounts {
    return this.#parts.book.counts(store.id);
  }

  /** Throws HttpError 404. */
  batch(store: StoreRecord, id: string): BatchRecord {
    const batch = this.#parts.book.batch(store.id, id);
    if (batch !== null) return batch;
    throw missing("file batch", id);
  }

  /** Files of a batch that are still in its store, in the order of their upload. */
  membersOf({ storeId, fileIds }: BatchRecord): MemberRecord[] {
    return fileIds
      .map((fileId) => this.find(storeId, fileId))
      .filter((member) => member !== null)
      .sort((a, b) => a.serial - b.serial);
  }

  /** Files that are on their way do not get in. */
  cancel({ storeId, id, fileIds }: BatchRecord): Promise<BatchRecord> {
    const { book } = this.#parts;
    return this.#exclusive.run(storeId, async () => {
      await this.#queue.cancel(storeId, new Set(fileIds));
      const batch = this.batch(this.#alive(storeId), id);
      const ended = this.membersOf(batch).filter(({ status }) => status === "in_progress");
      const members = ended.map((member): MemberRecord => ({ ...member, status: "cancelled" }));
      const cancelled = { ...batch, cancelled: true };
      await book.write([{ batch: cancelled }, ...members.map((member) => ({ member }))]);
      await this.#background(() => this.#clear(members));
      return cancelled;
    });
  }

  /** Records of files that are to be put into a store. Throws HttpError 404, INVALID_ARGUMENT. */
  newMembers(store: StoreRecord, fields: readonly MemberFields[]): MemberRecord[] {
    const { book, files, nowSeconds } = this.#parts;
    const now = nowSeconds();
    const members = fields.map(({ fileId, attributes, chunking }): MemberRecord => {
      const { serial, filename } = files.get(fileId);
      return {
        ...{ storeId: store.id, fileId, serial, filename, createdAt: now, attributes, chunking },
        ...{ status: "in_progress", error: null, usageBytes: 0, removed: false },
      };
    });
    const isNew = ({ fileId }: MemberRecord) => book.member(store.id, fileId) === null;
    const added = new Set(members.filter(isNew).map(({ fileId }) => fileId)).size;
    checkMembers(book.memberCountOf(store.id) + added, LIMITS.filesOfStore, "a vector store");
    checkMembers(book.memberCount + added, LIMITS.members, "all vector stores");
    return members;
  }

  /** Removes all files of a store, with what `dropped` removes; its records, too. */
  empty(store: StoreRecord, dropped: () => Promise<void>): Promise<void> {
    const { book } = this.#parts;
    return this.#exclusive.run(store.id, async () => {
      await this.#queue.cancel(store.id);
      await dropped();
      const members = book.members(store.id).map((member) => ({ member, gone: true }));
      const batches = book.batches(store.id).map((batch) => ({ batch, gone: true }));
      const last = store.removed ? [{ store, gone: true }] : [];
      await book.write([...members, ...batches, ...last]);
    });
  }

  /** Removes the chunks of a file that leaves a store, then forgets that it was there. */
  forget({ storeId, fileId }: MemberRecord): Promise<void> {
    const { book } = this.#parts;
    return this.#exclusive.run(storeId, async () => {
      const member = book.member(storeId, fileId);
      // It may have been put in again meanwhile.
      if (member?.removed !== true) return;
      await this.#queue.cancel(storeId, new Set([fileId]));
      await this.#clear([member]);
      await book.write([{ member, gone: true }]);
    });
  }

  /** `changes`: what is written with the files. */
  #attach(
    store: StoreRecord,
    fields: readonly MemberFields[],
    changes: readonly Change[],
  ): Promise<MemberRecord[]> {
    const { book } = this.#parts;
    book.checkRoom();
    return this.#exclusive.run(store.id, async () => {
      this.newMembers(this.#alive(store.id), fields);
      // Those that are on their way begin anew.
      await this.#queue.cancel(store.id, new Set(fields.map(({ fileId }) => fileId)));
      const members = this.newMembers(this.#alive(store.id), fields);
      await book.write([...members.map((member) => ({ member })), ...changes]);
      this.start(members);
      return members;
    });
  }

  /** Batches that are done and remembered no longer. */
  #surplus(store: StoreRecord): Change[] {
    const batches = this.#parts.book.batches(store.id);
    const isDone = (batch: BatchRecord) =>
      this.membersOf(batch).every(({ status }) => status !== "in_progress");
    const surplus = batches.length + 1 - LIMITS.batchesOfStore;
    if (surplus <= 0) return [];
    const old = batches.filter(isDone).slice(0, surplus);
    return old.map((batch) => ({ batch, gone: true }));
  }

  /** Puts files in of which the records are there. */
  start(members: readonly MemberRecord[]): void {
    const { book, files } = this.#parts;
    const queued = members.flatMap((member) => {
      const file = book.file(member.fileId);
      if (file === null) return [];
      const { id, filename, bytes } = file;
      return [{ member, file: { id, filename, bytes, path: files.path(file) } }];
    });
    this.#queue.add(queued);
  }

  #settle({ member }: QueuedFile, outcome: IngestOutcome): void {
    const { book } = this.#parts;
    const current = book.member(member.storeId, member.fileId);
    if (current === null || current.removed || current.status !== "in_progress") return;
    if (outcome.state === "stored") {
      const { usageBytes } = outcome;
      const done: MemberRecord = { ...current, status: "completed", usageBytes, error: null };
      void this.#background(() => book.write([{ member: done }]));
      return;
    }
    const { code, message } = outcome;
    const failed: MemberRecord = { ...current, status: "failed", error: { code, message } };
    void this.#background(async () => {
      await book.write([{ member: failed }]);
      await this.#exclusive.run(member.storeId, async () => {
        const now = book.member(member.storeId, member.fileId);
        if (now?.status === "failed") await this.#clear([now]);
      });
    });
  }

  #alive(storeId: string): StoreRecord {
    const store = this.#parts.book.store(storeId);
    if (store !== null && !store.removed) return store;
    throw missing("vector store", storeId);
  }

  async #clear(members: readonly MemberRecord[]): Promise<void> {
    const { ingest } = this.#parts;
    for (const { storeId, fileId } of members) await ingest.remove(storeId, fileId);
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

/** The error for an object that is not there. */
export function missing(what: string, id: string): HttpError {
  return new HttpError(404, "not_found", `Cannot find ${what} ${id}: there is none of this id`);
}

function checkMembers(count: number, max: number, where: string): void {
  if (count <= max) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot add files: ${where} may have ${max}, with these it would have ${count}`,
    { param: "file_id" },
  );
}
