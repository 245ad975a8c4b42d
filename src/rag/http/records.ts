/** What is kept of files and vector stores, as plain data. Times are Unix seconds. */
import type { Attributes } from "#rag/texts";

/** An uploaded file. */
export interface FileRecord {
  readonly id: string;
  readonly serial: number;
  /** Without folders and control characters. */
  readonly filename: string;
  readonly purpose: string;
  readonly bytes: number;
  /** SHA-256 of its bytes in hex. */
  readonly hash: string;
  readonly createdAt: number;
  /** Null: never. */
  readonly expiresAt: number | null;
}

/** A vector store; its corpus has the same name. */
export interface StoreRecord {
  readonly id: string;
  readonly serial: number;
  readonly name: string;
  readonly description: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAt: number;
  readonly lastActiveAt: number;
  /** Days without use after which it expires; null: never. */
  readonly expiresAfterDays: number | null;
  /** Its files are gone, its name stays. */
  readonly expired: boolean;
  /** It is being removed: what is left of it goes at the next start. */
  readonly removed: boolean;
}

/** How a file is cut; null: as the server does by default. */
export type Chunking = {
  readonly chunkTokens: number;
  readonly overlapTokens: number;
} | null;

export type MemberStatus = "in_progress" | "completed" | "failed" | "cancelled";

/** Why a file is not in a store. */
export interface MemberError {
  readonly code: "server_error" | "unsupported_file" | "invalid_file";
  readonly message: string;
}

/** A file in a vector store. */
export interface MemberRecord {
  readonly storeId: string;
  readonly fileId: string;
  /** Of the file: files of a store are listed in the order of their upload. */
  readonly serial: number;
  readonly filename: string;
  readonly createdAt: number;
  readonly status: MemberStatus;
  readonly error: MemberError | null;
  /** Of its chunks' texts, in UTF-8. */
  readonly usageBytes: number;
  readonly attributes: Attributes;
  readonly chunking: Chunking;
  /** Its chunks are being removed. */
  readonly removed: boolean;
}

/** Files that were put into a store together. */
export interface BatchRecord {
  readonly id: string;
  readonly serial: number;
  readonly storeId: string;
  readonly createdAt: number;
  readonly fileIds: readonly string[];
  readonly cancelled: boolean;
}
