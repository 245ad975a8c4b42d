import { describe, expect, test } from "vitest";
import { mixedWorkload, type TraceRequest } from "#simulator";

/** What a request says of its first and of its last block. */
const said = ({ priorities }: TraceRequest) => [priorities?.at(0), priorities?.at(-1)].join();
const key = ({ ids }: TraceRequest, blocks: number) => ids.slice(0, blocks).join();

describe("mixedWorkload", () => {
  const { requests, blockRefs } = mixedWorkload({ seed: 1, requests: 4000 });
  const questions = requests.filter((request) => said(request) === "100,35");
  const turns = requests.filter((request) => said(request) === "35,35");
  const oneOffs = requests.filter((request) => said(request) === "10,10");

  test("is half questions, three tenths chats, and the rest one-off", () => {
    const share = (kind: readonly TraceRequest[]) => kind.length / requests.length;
    expect(questions.length + turns.length + oneOffs.length).toBe(requests.length);
    expect(share(questions)).toBeCloseTo(0.5, 1);
    expect(share(turns)).toBeCloseTo(0.3, 1);
    expect(share(oneOffs)).toBeCloseTo(0.2, 1);
  });

  test("questions stand behind one of 32 system prompts, the first asked most", () => {
    const counts = new Map<string, number>();
    for (const request of questions) {
      const prompt = key(request, 8);
      counts.set(prompt, (counts.get(prompt) ?? 0) + 1);
    }
    // The last one is asked so seldom that it may not come up.
    expect(counts.size).toBeGreaterThan(24);
    expect(counts.size).toBeLessThanOrEqual(32);
    expect(Math.max(...counts.values())).toBeGreaterThan(questions.length / 8);
  });

  test("one-off requests are never seen again", () => {
    expect(new Set(oneOffs.map((request) => request.ids[0])).size).toBe(oneOffs.length);
  });

  test("a turn of a chat repeats all that was said before", () => {
    const chats = new Map<number | undefined, Int32Array>();
    let continued = 0;
    for (const { ids } of turns) {
      const before = chats.get(ids[0]);
      if (before !== undefined) {
        expect(ids.slice(0, before.length)).toEqual(before);
        expect(ids.length).toBeGreaterThan(before.length);
        continued++;
      }
      chats.set(ids[0], ids);
    }
    expect(continued).toBeGreaterThan(turns.length / 2);
  });

  test("is the same for the same seed, and counts its blocks", () => {
    const again = mixedWorkload({ seed: 1, requests: 4000 });
    expect(again.requests[3999]).toEqual(requests[3999]);
    expect(mixedWorkload({ seed: 2, requests: 10 }).requests[9]).not.toEqual(requests[9]);
    expect(blockRefs).toBe(requests.reduce((sum, { ids }) => sum + ids.length, 0));
  });
});
