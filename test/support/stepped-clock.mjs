/**
 * node --import: a clock that is set while the process runs. At SIGUSR2 `Date` is ahead by the
 * milliseconds in the file that PERIGEE_TEST_CLOCK names; monotonic clocks go on.
 */
import { readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

const RealDate = Date;
let aheadMs = 0;

globalThis.Date = class extends RealDate {
  constructor(...values) {
    if (values.length === 0) super(RealDate.now() + aheadMs);
    else super(...values);
  }

  static now() {
    return RealDate.now() + aheadMs;
  }
};

const file = process.env.PERIGEE_TEST_CLOCK;
if (isMainThread && file !== undefined) {
  process.on("SIGUSR2", () => {
    aheadMs = Number(readFileSync(file, "utf8"));
  });
}
