/**
 * cluster: many workers behind one address.
 *
 *   protocol/    what the rooms say to each other
 *   index/       which worker has which part of a prompt
 *   routing/     which worker gets a request
 *   membership/  which workers there are
 *
 * @module
 */
export * from "#cluster/index";
export * from "#cluster/membership";
export type * from "#cluster/protocol";
export * from "#cluster/routing";
