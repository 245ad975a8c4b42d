/**
 * engine/exchange: blocks that travel between engines.
 *
 *   kv-exchange.ts     both directions of one engine, on its thread
 *   block-imports.ts   requests that wait for blocks of another engine
 *   block-fills.ts     blocks that are fetched for no request: this engine gives memory alone
 *   disk-loads.ts      what it has on disk is brought to host memory first
 *   block-exports.ts   questions of other engines: blocks are sent as they are computed
 *   block-ask.ts       the question and its answer, as bytes
 *   staged-link.ts     blocks of which other stages of this engine have a part
 *   peer-traffic.ts    brings the cache's jobs together with the port's pieces
 *   peer-port.ts       what is needed of the transport; network-port.ts: `#transfer` as such
 *
 * Invariant: what does not come is computed; a failed transfer costs time only.
 * Invariant: nothing is sent that a failed step should have computed.
 *
 * @module
 */
export type { BlockIdentity, ExchangeParts } from "./exchange-parts.ts";
export { KvExchange } from "./kv-exchange.ts";
export { openPeerPort } from "./network-port.ts";
export type { PeerAddress, PeerPort, PortAsk, PortOffer, PortRead } from "./peer-port.ts";
export { PeerTraffic } from "./peer-traffic.ts";
export { type OfferingStages, stagedLink } from "./staged-link.ts";
