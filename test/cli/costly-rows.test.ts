/** Rows of a file that were made to cost much are refused by name, and the others are generated. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { built, jsonLines, perigeeInside } from "./perigee.ts";

const scratch = mkdtempSync(join(tmpdir(), "perigee-rows-"));

afterAll(() => rmSync(scratch, { recursive: true }));

test.runIf(built)(
  "a costly row of --input is refused by name, and the others are generated",
  async () => {
    const input = join(scratch, "rows.jsonl");
    const words = Array.from({ length: 50_000 }, (_, i) => `word ${i}`);
    const rows = [
      { prompt: "word ".repeat(2 * 10 ** 6) },
      { prompt: "Hello", bad_words: words.slice(0, 1024) },
      { prompt: "Hello" },
    ];
    writeFileSync(input, rows.map((row) => JSON.stringify(row)).join("\n"));
    const flags = ["--input", input, "--json", "--temperature", "0", "--max-tokens", "1"];
    const { code, stdout } = await perigeeInside(["generate", ...flags]);
    const [long, wordy, plain] = jsonLines(stdout);
    expect(code).toBe(1);
    expect(long?.error).toMatchObject({ code: "PROMPT_TOO_LONG" });
    expect(wordy?.error).toBeUndefined();
    expect(plain?.finish_reason).toBe("length");
  },
);

test.runIf(built)(
  "bad words and stop strings beyond their limits are refused by name",
  async () => {
    const input = join(scratch, "wrong.jsonl");
    for (const [field, value] of [
      ["bad_words", Array.from({ length: 1025 }, () => "x")],
      ["stop", Array.from({ length: 65 }, () => "x")],
      ["stop", "x".repeat(1025)],
    ] as const) {
      writeFileSync(input, JSON.stringify({ prompt: "Hello", [field]: value }));
      const { code, stdout, stderr } = await perigeeInside([
        "generate",
        "--input",
        input,
        "--json",
      ]);
      expect(code).toBeGreaterThan(0);
      expect(stdout + stderr).toMatch(new RegExp(`${field}.* must have at most`));
    }
  },
);
