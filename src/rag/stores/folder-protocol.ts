/** Messages between a store of a folder and its thread. */
import type { ErrorCode } from "#base";
import type { VectorStore } from "./vector-store.ts";

/** Methods of a store that its thread answers. */
export type FolderMethod = Exclude<keyof VectorStore, "info" | typeof Symbol.asyncDispose>;

/** What a method takes. */
export type FolderValues<Method extends FolderMethod> = Parameters<VectorStore[Method]>;

/** What it returns. */
export type FolderResult<Method extends FolderMethod> = Awaited<ReturnType<VectorStore[Method]>>;

/** What the thread is started with. */
export interface FolderThreadData {
  readonly folder: string;
  /** Elements of vectors that are compared one by one; null: as many as take 10 ms. */
  readonly exactElements: number | null;
}

/** A call of a method. */
export interface FolderCall {
  readonly call: number;
  readonly method: FolderMethod;
  readonly values: readonly unknown[];
}

/** An error as it passes between threads. */
export interface FolderFailure {
  readonly code: ErrorCode;
  readonly message: string;
  readonly param: string | null;
}

/** From the thread. */
export type FromFolder =
  /** It has opened the folder. */
  | { readonly type: "ready"; readonly notes: readonly string[] }
  /** It cannot, and ends. */
  | { readonly type: "failed"; readonly failure: FolderFailure }
  | { readonly type: "result"; readonly call: number; readonly result: unknown }
  | { readonly type: "error"; readonly call: number; readonly failure: FolderFailure };
