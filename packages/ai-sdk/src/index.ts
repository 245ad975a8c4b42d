/**
 * @perigee/ai-sdk: a provider for the Vercel AI SDK, of language model specification v4.
 *
 * `createPerigee({ llm })` answers in this process, without HTTP; `createPerigee({ baseURL })` asks
 * a Perigee server, or a router in front of several. Both make the same parts from the same events.
 *
 *   provider.ts         the provider: models by name
 *   language-model.ts   generate and stream; stream-parts.ts: events as parts of the SDK
 *   embedding-model.ts  vectors of texts
 *   request.ts          a call of the SDK as a request; messages.ts: its prompt as messages
 *   options.ts          options of this provider
 *   chat-source.ts      what answers: in-process.ts, by-url.ts (server-events.ts reads streams)
 *
 * Invariant: imports nothing of perigee. What it needs of an `LLM` is an interface that one fits.
 *
 * @module
 */
export type { ChatSourceEvent, PerigeeModel } from "./chat-source.ts";
export type { PerigeeOptions, PerigeeRetention } from "./options.ts";
export { createPerigee, type PerigeeProvider, type PerigeeSettings } from "./provider.ts";
