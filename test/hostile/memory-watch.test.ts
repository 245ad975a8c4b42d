import { describe, expect, test } from "vitest";
import { GROWTH_BYTES_MAX, MemoryWatch } from "./memory-watch.ts";

const MIB = 2 ** 20;

/** Follows a server of one process whose MiB after so many requests are `of`. What it finds. */
function watched(requests: number, of: (served: number) => number) {
  let served = 0;
  const server = { residentBytesEach: () => [of(served) * MIB] };
  const watch = new MemoryWatch({ server, requests, growthBytesMax: GROWTH_BYTES_MAX });
  while (served < requests) {
    served += 10;
    watch.note(served, served);
  }
  return { problems: watch.end(served), settled: watch.isSettled(served), report: watch.report() };
}

describe("a server's memory", () => {
  test("may be larger for a while, and as large as its caches get", () => {
    const { problems, settled, report } = watched(5_000, (served) =>
      served === 2_000 ? 850 : 600 + Math.min(100, served / 10),
    );
    expect(problems).toEqual([]);
    expect(settled).toBe(true);
    expect(report).toMatchObject({ start: 600, warm: 700, warmRequests: 500, most: 850, end: 700 });
    expect(report.mostEach).toEqual([850]);
    expect(report.tenths).toHaveLength(10);
    expect(report.tenths.slice(5)).toEqual([700, 700, 700, 700, 700]);
  });

  test("must not grow with the number of requests", () => {
    const { problems, settled } = watched(5_000, (served) => 600 + served / 40);
    expect(problems).toEqual([expect.stringMatching(/^\d+ bytes more than after 500 requests$/)]);
    expect(settled).toBe(false);
  });

  test("must not be much larger for a moment either", () => {
    const { problems } = watched(5_000, (served) => (served === 2_000 ? 900 : 600));
    expect(problems).toEqual([`${300 * MIB} bytes more than before, while it ran`]);
  });

  test("of a long run is what it is after 5,000 requests", () => {
    const grown = (served: number) => 600 + Math.min(130, served / 50);
    expect(watched(50_000, grown)).toMatchObject({ problems: [], report: { warm: 730 } });
    // 70 MiB more behind these.
    const { problems } = watched(
      50_000,
      (served) => grown(served) + Math.max(0, served - 1e4) / 500,
    );
    expect(problems).toEqual([expect.stringMatching(/more than after 5000 requests$/)]);
  });

  test("of few requests is not known well enough to be compared", () => {
    expect(watched(900, (served) => 600 + served / 10).problems).toEqual([]);
  });
});
