/**
 * simulator/traffic: made-up and recorded loads for fleets. docs/traffic.md says how each is made.
 *
 *   traffic.ts         requests as data: pieces by name, and when they come
 *   token-rule.ts      names to tokens; traffic-text.ts: to text
 *   trace-requests.ts  a trace of hash ids
 *   shared-prompts.ts  groups behind one system prompt each
 *   chats.ts           chats of several turns
 *   agents.ts          agents with tools and sub-agents
 *   conversation.ts    what both share: prompts that grow
 *   play-traffic.ts    on a simulated clock
 *   draws.ts           random numbers from a seed
 *
 * Invariant: the same settings give the same traffic, to the last token.
 *
 * @module
 */
export { AGENTS, type Agents, agents } from "./agents.ts";
export { CHATS, type Chats, chats } from "./chats.ts";
export { type Amount, Draws } from "./draws.ts";
export { playTraffic, type TrafficSink } from "./play-traffic.ts";
export {
  type RateStep,
  SHARED_PROMPTS,
  type SharedPrompts,
  sharedPrompts,
  workingSetTokens,
} from "./shared-prompts.ts";
export { namedTokens, promptOf, TOKEN_SEED, type TrafficVocabulary } from "./token-rule.ts";
export { TRACE_NAMES, type TraceTrafficSettings, traceRequests } from "./trace-requests.ts";
export {
  type PieceRole,
  summaryOf,
  type Traffic,
  type TrafficPiece,
  type TrafficRequest,
  type TrafficSummary,
  tokensIn,
  trafficOf,
} from "./traffic.ts";
export { messagesOf, type TrafficMessage, TrafficWords } from "./traffic-text.ts";
