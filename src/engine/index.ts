/**
 * engine: turns requests into tokens.
 *
 *   api.ts   what goes in and comes out
 *
 * @module
 */
export type * from "./api.ts";
