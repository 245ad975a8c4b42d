import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { type PromptFlags, readPrompts } from "../../src/cli/prompt-source.ts";
import { samplingFlags } from "../../src/cli/sampling-flags.ts";

const scratch = mkdtempSync(join(tmpdir(), "perigee-prompts-"));
afterAll(() => rmSync(scratch, { recursive: true }));

const sampling = samplingFlags({ maxTokens: 128 });
const read = (flags: PromptFlags) => readPrompts(flags, { sampling, flags: {} });

test("texts come first, then token ids, then the lines of a file that say something", async () => {
  const input = join(scratch, "prompts.jsonl");
  writeFileSync(input, '"C"\n\n{"prompt": "D", "seed": 5}\n');
  const rows = await read({ input, promptIds: ["1,2", " 3"], prompt: ["A", "B"] });
  expect(rows.map(({ prompt }) => prompt)).toEqual([
    "A",
    "B",
    { promptTokenIds: [1, 2] },
    { promptTokenIds: [3] },
    "C",
    "D",
  ]);
  expect(rows[5]).toMatchObject({ sampling: { seed: 5 }, place: `${input}, line 3` });
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
