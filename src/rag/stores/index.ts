/**
 * rag/stores: where chunks and their vectors are kept.
 *
 *   vector-store.ts   the contract that all stores have
 *   filter.ts         filters over attributes, and their definition
 *
 * @module
 */
export { type Comparison, type Compound, type Filter, passes } from "./filter.ts";
export type {
  CorpusInfo,
  CorpusSpec,
  Hit,
  StoredDocument,
  StoreInfo,
  StoreQuery,
  VectorStore,
} from "./vector-store.ts";
