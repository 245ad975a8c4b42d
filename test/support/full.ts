/**
 * How long tests run: `npm test` runs the short sizes, `npm run test:full` the long ones. The one
 * place that reads `PERIGEE_FULL`; both lengths check the same things.
 */

/** True under `npm run test:full`. */
export const full: boolean = process.env.PERIGEE_FULL === "1";

/** The size of a test: `short` in `npm test`, `long` in `npm run test:full`. */
export function sized<Size>(short: Size, long: Size): Size {
  return full ? long : short;
}

/**
 * Threads of a cpu device, where a test is not about them. Several files at a time keep two cores at
 * work: threads of all would wait for each other at every op. Results do not depend on them.
 */
export const cpuThreads: number = sized(1, 2);

/** Of a sweep: each `nth` case in `npm test`, beginning with the first, all in the long one. */
export function eachNth<Case>(nth: number, cases: readonly Case[]): readonly Case[] {
  return cases.filter((_, place) => full || place % nth === 0);
}
