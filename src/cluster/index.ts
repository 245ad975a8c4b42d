/**
 * cluster: many workers behind one address.
 *
 *   protocol/  what the rooms say to each other
 *
 * @module
 */
export type * from "#cluster/protocol";
