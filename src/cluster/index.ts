/**
 * cluster: many workers behind one address.
 *
 *   protocol/    what the rooms say to each other
 *   index/       which worker has which part of a prompt
 *   routing/     which worker gets a request
 *   conductor/   where prompts are computed, where requests decode, and what moves
 *   feeds/       what workers' caches announce
 *   membership/  which workers there are
 *   router/      one OpenAI address for many workers
 *
 * @module
 */
export * from "#cluster/conductor";
export { RedisPublisher, type RedisPublisherOptions, streamKey, workerScope } from "#cluster/feeds";
export { failureText, systemHttp } from "#cluster/http";
export * from "#cluster/index";
export * from "#cluster/membership";
export type * from "#cluster/protocol";
export {
  RouterOptions,
  type RouterSecrets,
  type RunningRouter,
  startRouter,
} from "#cluster/router";
export * from "#cluster/routing";
