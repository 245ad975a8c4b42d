/**
 * transfer: keys and values travel between processes.
 *
 * A process offers an ordered list of pieces; a peer that knows the offer's id reads them, once,
 * also while later pieces are still computed. How they travel is chosen for each peer by what
 * works: shared memory, data connections of native threads, or frames of one connection.
 *
 *   contract.ts        offers, reads, and what each promises
 *   standing-offer.ts  an offer between its owner and its reader
 *   pending-read.ts    a read: pieces, deadline, signal
 *   questions.ts       short questions between processes that know the same secret, shown by
 *                      challenge.ts; asker.ts asks, byte-reader.ts and question-frames.ts help
 *   same-process.ts    the way within a process
 *   gate.ts            who may connect; handshake.ts: the secret; encryption.ts: certificates
 *   server-session.ts  a reader's connection, at the owner; peer-session.ts: at the reader
 *   shared-memory.ts   memory that peers of this machine map; read-slots.ts: while it is valid
 *   inherited-memory.ts   memory of a process and of one that it starts
 *   placed-memory.ts   memory that readers reach by a description, as a GPU's
 *   native             the library of native/transfer, its events and tables
 *
 * Invariant: it moves bytes. What they mean, and whether they fit the reader, is asked elsewhere.
 * Invariant: memory of a read or an offer is not touched after its promise has settled.
 *
 * @module
 */
export { type Asker, type AskerOptions, type Asking, openAsker } from "./asker.ts";
export { openTransferClient } from "./client.ts";
export type {
  CopyPlaced,
  ForeignRange,
  Offer,
  OfferEnd,
  OfferOptions,
  PeerAddress,
  PieceRanges,
  PiecesByWay,
  PlacedMemory,
  PlacedRange,
  ReadRequest,
  TransferClient,
  TransferServer,
  TransferServerStats,
  WantedPiece,
} from "./contract.ts";
export { exposeMemory } from "./exposed-memory.ts";
export { createInherited, type InheritedMemory, mapInherited } from "./inherited-memory.ts";
export type {
  TransferClientOptions,
  TransferServerOptions,
  TransferTls,
  TransferWay,
} from "./options.ts";
export { placedMemory } from "./placed-memory.ts";
export {
  type AskingPeer,
  openQuestionServer,
  type QuestionServer,
  type QuestionServerOptions,
} from "./questions.ts";
export { openTransferServer } from "./server.ts";
export {
  type SharedMemory,
  type SharedRegion,
  sharedMemory,
  sharedRegion,
} from "./shared-memory.ts";
export { TransferError, type TransferErrorCode } from "./transfer-error.ts";
