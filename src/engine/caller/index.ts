/**
 * engine/caller: the caller's thread. It works with text, and never imports the loop.
 *
 *   model-files.ts      a model's files but weights; generation-config.ts: sampling defaults
 *   model-text.ts       tokenizer and chat template; model-codec.ts encodes on other threads;
 *                       template-option.ts reads another template
 *   bundled-model.ts    where the bundled model is; model-paths.ts: where others are
 *   auto-drafts.ts      what drafts where the options leave that open
 *   request-options.ts, request-check.ts   the options of a call, checked
 *   message-check.ts    the messages of a conversation, checked
 *   generated-check.ts  what another engine generated, checked
 *   request-starter.ts  starts requests from prompts and options
 *   active-request.ts   a request as its caller sees it: channel.ts is its queue, reader-lag.ts
 *                       how far its reader is behind, pacer.ts when tokens are delivered
 *   sequence-text.ts    tokens to text, stop strings; stream-item.ts: what a reader gets
 *   plain-ids.ts        token ids as callers read them
 *   generate-all.ts     any number of prompts, completed
 *   prompt-logits.ts    logits of a prompt's tokens
 *   chat-rounds.ts      conversations: answers, and calls run in between by chat-tools.ts;
 *                       chat-options.ts checks what a caller wants of them, bounded-json.ts
 *                       writes what handlers return
 *   text-vectors.ts     texts to vectors, and pairs to scores; pair-ids.ts: two texts as one;
 *                       embedding-fingerprint.ts: which models make comparable vectors
 *   lazy-stream.ts      a stream that is opened when it is first read
 *   engine-client.ts    passes each message of the engine to its request
 *   joined-client.ts    a client of a model that another thread loaded
 *   link.ts             the connection to the engine's thread
 *   kv-events.ts        events of the cache, for readers on this thread
 *   abort-listener.ts   lets many requests listen to one signal
 *   bounded-map.ts      a bounded number of calls at once
 *   pending-asks.ts     questions to the engine without an answer yet
 *
 * @module
 */
export { requestsAtOnce } from "./bounded-map.ts";
export { bundledModel } from "./bundled-model.ts";
export { chatEvents, chatResult } from "./chat-rounds.ts";
export { embeddingFingerprint } from "./embedding-fingerprint.ts";
export { EngineClient } from "./engine-client.ts";
export { generateAll } from "./generate-all.ts";
export type { SamplingDefaults } from "./generation-config.ts";
export { joinedClient } from "./joined-client.ts";
export { kvEventsOf } from "./kv-events.ts";
export { LazyStream } from "./lazy-stream.ts";
export { type EngineLink, linkOver, type OpenLink, openThread } from "./link.ts";
export { CHAT_ROLES, needsContent, TEXT_PARTS } from "./message-check.ts";
export { describe, type ModelFiles, type ModelParts, nameOf, readFiles } from "./model-files.ts";
export { modelPaths } from "./model-paths.ts";
export { ModelText } from "./model-text.ts";
export { promptLogits } from "./prompt-logits.ts";
export { checkModel } from "./request-check.ts";
export {
  RequestStarter,
  requestName,
  type StartOptions,
  type StartPrompt,
} from "./request-starter.ts";
export { collectResult } from "./stream-item.ts";
export { readTemplateOption } from "./template-option.ts";
export { TextVectors } from "./text-vectors.ts";
