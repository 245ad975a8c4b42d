/** What a worker says of itself, and 10,000 answers that no worker gives. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { EngineError } from "#base";
import { readWorkerInfo, readWorkerReport } from "#cluster";
import { workerInfo } from "../../support/worker-info.ts";

const load = { runningRequests: 2, waitingRequests: 1, blocksUsed: 0.5, uncachedTokens: 900 };

test("[CL49] a worker's answer is read as it stands", () => {
  const info = workerInfo();
  expect(readWorkerReport({ ...info, state: "draining", load, more: 1 })).toEqual({
    ...{ info, state: "draining", load },
  });
});

test("[CL116] the stream of a worker's events is one of those, and no other key", () => {
  const kv = { blockTokens: 16, blocks: [1], groupWindows: [null] };
  const stream = "perigee:kv:worker-1:1";
  expect(readWorkerInfo(workerInfo({ kv: { ...kv, stream } })).kv?.stream).toBe(stream);
  for (const other of ["perigee:workers", "", 7, `${stream}\n`, stream + "x".repeat(2000)]) {
    const read = () => readWorkerInfo({ ...workerInfo(), kv: { ...kv, stream: other } });
    expect(read).toThrow(/^Cannot read a worker: kv.stream/);
  }
});

test("[CL49] what is not readable of its fetches is not there", () => {
  const loadOf = (fetched: unknown) =>
    readWorkerReport({ ...workerInfo(), load: { ...load, fetched } }).load;
  const fetched = { tokens: 160, seconds: 0.5 };
  expect(loadOf({ ...fetched, more: 1 })).toEqual({ ...load, fetched });
  for (const wrong of [null, 7, [], { tokens: -1, seconds: 1 }, { tokens: 1 }, { tokens: "1" }]) {
    expect(loadOf(wrong)).toEqual(load);
  }
});

test("[CL245] a role is pinned where its worker says so, and nothing else", () => {
  expect(readWorkerInfo({ ...workerInfo(), rolePinned: true }).rolePinned).toBe(true);
  for (const other of [false, null, 1, "true", {}]) {
    expect(readWorkerInfo({ ...workerInfo(), rolePinned: other }).rolePinned).toBeUndefined();
  }
});

test("[CL49] without a readable load a worker is still one", () => {
  for (const wrong of [undefined, null, 7, {}, { ...load, blocksUsed: -1 }]) {
    expect(readWorkerReport({ ...workerInfo(), load: wrong }).load).toBeNull();
  }
});

test.each([
  ["id", ""],
  ["id", "a\nb"],
  ["id", "x".repeat(501)],
  ["url", "file:///etc/passwd"],
  ["url", "http://x/?a=b"],
  ["kind", "another"],
  ["models", []],
  ["models", Array.from({ length: 65 }, () => "m")],
  ["contextTokensMax", -1],
  ["contextTokensMax", 1e300],
  ["kv", { blockTokens: 16, blocks: [1, 1, 1, 1], groupWindows: [null] }],
  ["kv", { blockTokens: "16", blocks: [1], groupWindows: [null] }],
])("[CL49] a wrong %s is refused by name: %j", (field, value) => {
  const read = () => readWorkerInfo({ ...workerInfo(), [field]: value });
  expect(read).toThrow(new RegExp(`^Cannot read a worker: ${field}`));
});

test("[CL49] no answer of a stranger does more than be refused", () => {
  const info = workerInfo();
  const fields = fc.constantFrom(...Object.keys(info));
  const answers = fc.oneof(
    fc.jsonValue(),
    fc.record({ field: fields, value: fc.jsonValue() }).map(({ field, value }) => ({
      ...info,
      [field]: value,
    })),
  );
  fc.assert(
    fc.property(answers, (value) => {
      try {
        const read = readWorkerInfo(value);
        expect(JSON.stringify(read).length).toBeLessThan(100_000);
      } catch (error) {
        expect(error).toBeInstanceOf(EngineError);
        expect(String(error).length).toBeLessThan(1000);
      }
    }),
    { numRuns: 10_000, seed: 15 },
  );
});
