/**
 * cluster: many workers behind one address.
 *
 *   protocol/    what the rooms say to each other
 *   routing/     which worker gets a request
 *   membership/  which workers there are
 *
 * @module
 */
export * from "#cluster/membership";
export type * from "#cluster/protocol";
export * from "#cluster/routing";
