import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { parseTrace, readTrace, traceLines } from "#simulator";

const row = (fields: object = {}) =>
  JSON.stringify({
    timestamp: 27_000,
    input_length: 700,
    output_length: 5,
    hash_ids: [4_000_000_000_000, 7],
    ...fields,
  });
const parse = (lines: string[], blockTokens = 512) =>
  parseTrace(lines, { path: "load.jsonl", blockTokens });

test("rows of hash ids become requests whose equal blocks have equal numbers", async () => {
  const trace = await parse([row(), "", row({ input_length: 1025, hash_ids: [9, 7, 8] }), "  "]);
  expect(trace).toMatchObject({ kind: "blocks", blockTokens: 512, blockRefs: 5 });
  expect(trace.requests).toEqual([
    {
      timestampMs: 27_000,
      inputTokens: 700,
      outputTokens: 5,
      ids: Int32Array.of(0, 1),
      priorities: null,
    },
    {
      timestampMs: 27_000,
      inputTokens: 1025,
      outputTokens: 5,
      ids: Int32Array.of(2, 1, 3),
      priorities: null,
    },
  ]);
});

test("rows of token ids are cut into blocks, and may say what is worth keeping", async () => {
  const tokens = { token_ids: [5, 6, 7], block_priorities: [100, 0, 35] };
  const trace = await parse([row({ ...tokens, input_length: undefined, hash_ids: undefined })], 2);
  expect(trace).toMatchObject({ kind: "tokens", blockTokens: 2, blockRefs: 2 });
  expect(trace.requests[0]?.ids).toEqual(Int32Array.of(5, 6, 7));
  expect(trace.requests[0]?.inputTokens).toBe(3);
  expect(trace.requests[0]?.priorities).toEqual(Uint8Array.of(100, 0));
});

test("a last block that is not full may be left out", async () => {
  await expect(parse([row({ hash_ids: [1] })])).resolves.toMatchObject({ blockRefs: 1 });
});

describe("a broken row is refused with its line and what is wanted", () => {
  const faults: readonly (readonly [string, string, string])[] = [
    ["no JSON", "{", "must be JSON, current value is {"],
    ["no object", "[1]", "must be a JSON object, current value is [1]"],
    ["no timestamp", row({ timestamp: "now" }), "a number of 0 or more as timestamp"],
    ["a negative length", row({ input_length: -1 }), "as input_length, current value is -1"],
    ["half a token", row({ output_length: 1.5 }), "as output_length, current value is 1.5"],
    ["no ids", row({ hash_ids: undefined }), "as hash_ids, current value is missing"],
    [
      "an id that is none",
      row({ hash_ids: [1, "2"] }),
      "as hash_ids, current value at 1 is 2; num",
    ],
    ["an id that JSON rounds", row({ hash_ids: [1, 2 ** 60] }), "current value at 1 is"],
    ["blocks of another length", row({ hash_ids: [1, 2, 3] }), "set --block-tokens"],
    ["a token beyond 31 bits", row({ token_ids: [2 ** 31] }), "as token_ids, current value at 0"],
    ["an empty prompt", row({ token_ids: [] }), "must have token_ids, current value is []"],
    ["a priority over 100", row({ block_priorities: [101] }), "from 0 to 100 as block_priorities"],
  ];

  test.for(faults)("%s", async ([, line, wanted]) => {
    const refusal = expect(parse([row(), line])).rejects;
    await refusal.toMatchObject({ code: "INVALID_ARGUMENT", param: "trace" });
    await expect(parse([row(), line])).rejects.toThrow("Cannot read trace load.jsonl: line 2 must");
    await expect(parse([row(), line])).rejects.toThrow(wanted);
  });

  test("rows of both kinds", async () => {
    const lines = [row(), row({ token_ids: [1] })];
    await expect(parse(lines)).rejects.toThrow("line 2 must be a row of blocks like those before");
  });

  test("no row at all", async () => {
    await expect(parse(["", ""])).rejects.toThrow("wanted at least one request");
  });
});

describe("a trace file", () => {
  test("is read line by line, with or without an end of line", async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-trace-"));
    try {
      const path = join(folder, "load.jsonl");
      // Longer than what is read at a time.
      const lines = Array.from({ length: 2000 }, (_, at) => row({ timestamp: at }));
      for (const end of ["", "\n", "\r\n"]) {
        writeFileSync(path, `${lines.join(end === "\r\n" ? end : "\n")}${end}`);
        const trace = await readTrace(path, 512);
        expect(trace.requests.map(({ timestampMs }) => timestampMs)).toEqual(
          lines.map((_, at) => at),
        );
      }
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.for(["nowhere/load.jsonl", "."])("that cannot be read is refused: %s", async (path) => {
    await expect(readTrace(path, 512)).rejects.toMatchObject({ code: "IO" });
    await expect(readTrace(path, 512)).rejects.toThrow(`a readable file, current value is ${path}`);
  });
});

describe("lines of bytes", () => {
  /** The lines of a text that comes in pieces of `size` bytes. */
  async function linesOf(bytes: Uint8Array, size: number): Promise<string[]> {
    async function* pieces() {
      for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
    }
    const lines: string[] = [];
    for await (const line of traceLines(pieces(), "load.jsonl")) lines.push(line);
    return lines;
  }

  test.for([1, 2, 3, 100])("are the same in pieces of %s bytes, without a BOM", async (size) => {
    const bytes = new TextEncoder().encode('\ufeff{}\n\n{"é": "語"}\nend');
    await expect(linesOf(bytes, size)).resolves.toEqual(["{}", "", '{"é": "語"}', "end"]);
  });

  test("that gzip compressed are refused with the remedy", async () => {
    const refusal = expect(linesOf(gzipSync(row()), 100)).rejects;
    await refusal.toMatchObject({ code: "INVALID_ARGUMENT", param: "trace" });
    await expect(linesOf(gzipSync(row()), 100)).rejects.toThrow("with - as the trace");
  });

  test("that are too long are refused before they fill the memory", async () => {
    let read = 0;
    async function* endless() {
      yield new TextEncoder().encode("{}\n");
      for (;;) {
        read++;
        yield new Uint8Array(2 ** 20).fill(0x20);
      }
    }
    const lines = traceLines(endless(), "load.jsonl");
    await expect(lines.next()).resolves.toEqual({ done: false, value: "{}" });
    await expect(lines.next()).rejects.toThrow("load.jsonl: line 2: wanted at most 67108864");
    expect(read).toBe(65);
  });
});
