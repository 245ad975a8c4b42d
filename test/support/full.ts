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
