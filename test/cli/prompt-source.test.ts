import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { afterAll, expect, test } from "vitest";
import { LINE_BYTES_MAX } from "../../src/cli/line-reader.ts";
import { type PromptFlags, readPrompts } from "../../src/cli/prompt-source.ts";
import { samplingFlags } from "../../src/cli/sampling-flags.ts";
import { sized } from "../support/full.ts";

const scratch = mkdtempSync(join(tmpdir(), "perigee-prompts-"));
afterAll(() => rmSync(scratch, { recursive: true }));

const ROWS = sized(20_000, 100_000);
const ROW_BYTES_MAX = 2500;

const sampling = samplingFlags({ maxTokens: 128 });
const read = (flags: PromptFlags) => readPrompts(flags, { sampling, flags: {} });

test("texts come first, then token ids, then the lines of a file that say something", async () => {
  const input = join(scratch, "prompts.jsonl");
  writeFileSync(input, '"C"\n\n{"prompt": "D", "seed": 5}\n');
  const rows = await read({ input, promptIds: ["1,2", " 3"], prompt: ["A", "B"] });
  expect(rows.map((row) => ("prompt" in row ? row.prompt : row))).toEqual([
    "A",
    "B",
    { promptTokenIds: [1, 2] },
    { promptTokenIds: [3] },
    "C",
    "D",
  ]);
  expect(rows[5]).toMatchObject({ sampling: { seed: 5 }, place: `${input}, line 3` });
});

test("rows that cannot be used stand refused in their places, and the others are read", async () => {
  const input = join(scratch, "hostile.jsonl");
  const deep = "[".repeat(200_000);
  const lines: (string | Buffer)[] = [
    '{"prompt": "good"}',
    Buffer.from([0x22, 0xff, 0xfe, 0x22]),
    `{"prompt": "x", "${"y".repeat(5000)}": 1}`,
    '{"prompt": "x", "__proto__": {"maxTokens": 3}}',
    '{"prompt": "x", "constructor": 1}',
    `{"prompt": ${deep}`,
    '{"prompt": "x", "top_k": 1e308}',
    '{"prompt": "x", "temperature": "1"}',
    '{"prompt": null}',
    "null",
    `"${"z".repeat(LINE_BYTES_MAX)}"`,
    '"good again"\r',
  ];
  writeFileSync(
    input,
    Buffer.concat(lines.flatMap((line) => [Buffer.from(line), Buffer.from("\n")])),
  );
  const rows = await read({ input });
  expect(rows).toHaveLength(lines.length);
  expect(rows[0]).toMatchObject({ prompt: "good" });
  expect(rows.at(-1)).toMatchObject({ prompt: "good again", place: `${input}, line 12` });
  const problems = rows.slice(1, -1).map((row) => ("refused" in row ? row.refused : null));
  expect(problems).toEqual(
    [
      "wanted UTF-8, this line has other bytes",
      `${"y".repeat(80)}… is not a known field`,
      "__proto__ is not a known field",
      "constructor is not a known field",
      "wanted JSON",
      "top_k must be ",
      "temperature must be a number",
      'wanted either "prompt" (text) or "prompt_token_ids"',
      "wanted a text or an object",
      `wanted a line of at most ${LINE_BYTES_MAX} bytes, this one has ${LINE_BYTES_MAX + 2}`,
    ].map((problem, index) => ({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining(`Cannot read ${input}, line ${index + 2}: ${problem}`),
    })),
  );
  for (const problem of problems) expect(problem?.message.length).toBeLessThan(400);
  expect(Reflect.get({}, "maxTokens")).toBeUndefined();
});

/** The heap without what can be collected: other files' garbage is in it, too. */
function keptBytes(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  return process.memoryUsage().heapUsed;
}

test(`${ROWS} rows, half of them wrong, cost no more than their contents`, async () => {
  const input = join(scratch, "many.jsonl");
  const pair = '{"prompt": "x", "max_tokens": 4}\n{"prompt": "x", "max_tokens": 0}\n';
  writeFileSync(input, pair.repeat(ROWS / 2));
  const before = keptBytes();
  const rows = await read({ input });
  expect(rows.filter((row) => "refused" in row)).toHaveLength(ROWS / 2);
  expect(keptBytes() - before).toBeLessThan(ROWS * ROW_BYTES_MAX);
});

test.for<[string, PromptFlags, string]>([
  ["words for ids", { promptIds: ["1,x"] }, "wanted token ids like 1,2,3, current value is 1,x"],
  ["an empty id", { promptIds: ["1,"] }, "wanted token ids like 1,2,3"],
  ["a missing file", { input: "nowhere.jsonl" }, "Cannot read nowhere.jsonl: wanted a file of"],
  ["a folder", { input: "test" }, "it is a folder"],
  ["another kind of file", { input: "README.md" }, "Cannot read README.md, line 1: wanted JSON"],
])("refuses %s", async ([, flags, message]) => {
  await expect(read(flags)).rejects.toThrow(message);
});
