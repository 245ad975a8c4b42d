/** Objects of OpenAI's API, as they are answered. */
import type { FileCounts, StoreCounts } from "./book.ts";
import type { BatchRecord, Chunking, FileRecord, MemberRecord, StoreRecord } from "./records.ts";

export function fileBody(file: FileRecord) {
  return {
    ...{ id: file.id, object: "file", bytes: file.bytes, created_at: file.createdAt },
    ...(file.expiresAt !== null && { expires_at: file.expiresAt }),
    ...{ filename: file.filename, purpose: file.purpose },
    ...{ status: "processed", status_details: null },
  };
}

/** What changes while a store is used. */
interface StoreState {
  readonly counts: StoreCounts;
  readonly lastActiveAt: number;
  readonly expiresAt: number | null;
}

export function storeBody(store: StoreRecord, { counts, lastActiveAt, expiresAt }: StoreState) {
  const { expiresAfterDays: days } = store;
  return {
    ...{ id: store.id, object: "vector_store", created_at: store.createdAt, name: store.name },
    ...(store.description !== null && { description: store.description }),
    ...{ usage_bytes: counts.usageBytes, file_counts: counts.files },
    status: store.expired ? "expired" : statusOf(counts.files),
    expires_after: days === null ? null : { anchor: "last_active_at", days },
    ...{ expires_at: expiresAt, last_active_at: lastActiveAt, metadata: store.metadata },
  };
}

export function memberBody(member: MemberRecord, chunkingDefault: NonNullable<Chunking>) {
  const { chunkTokens, overlapTokens } = member.chunking ?? chunkingDefault;
  return {
    ...{ id: member.fileId, object: "vector_store.file", created_at: member.createdAt },
    ...{ usage_bytes: member.usageBytes, vector_store_id: member.storeId },
    ...{ status: member.status, last_error: member.error, attributes: member.attributes },
    chunking_strategy: {
      type: "static",
      static: { max_chunk_size_tokens: chunkTokens, chunk_overlap_tokens: overlapTokens },
    },
  };
}

export function batchBody(batch: BatchRecord, members: readonly MemberRecord[]) {
  const counts = { in_progress: 0, completed: 0, failed: 0, cancelled: 0, total: members.length };
  for (const { status } of members) counts[status]++;
  return {
    ...{ id: batch.id, object: "vector_store.files_batch", created_at: batch.createdAt },
    ...{ vector_store_id: batch.storeId, file_counts: counts },
    status: batch.cancelled ? "cancelled" : statusOf(counts),
  };
}

export function deletedBody(id: string, object: string) {
  return { id, object, deleted: true };
}

/** Texts that are written at once. */
const TEXTS_AT_ONCE = 64;

/** The text of a file's content as JSON, in pieces. */
export async function* contentPieces(
  parts: AsyncIterable<readonly string[]>,
): AsyncGenerator<string> {
  yield '{"object":"vector_store.file_content.page","data":[';
  let comma = "";
  for await (const texts of parts) {
    for (let from = 0; from < texts.length; from += TEXTS_AT_ONCE) {
      const part = texts.slice(from, from + TEXTS_AT_ONCE);
      const items = part.map((text) => JSON.stringify({ type: "text", text }));
      yield comma + items.join(",");
      comma = ",";
    }
  }
  yield '],"has_more":false,"next_page":null}';
}

function statusOf(counts: FileCounts): string {
  return counts.in_progress > 0 ? "in_progress" : "completed";
}
