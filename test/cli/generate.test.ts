import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { openCheckpoint } from "#checkpoint";
import { decodeFloats } from "#tensor";
import { fixturePath, openRecordedModel, worstDifference } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";
import { built, jsonLines, perigee, perigeeInside } from "./perigee.ts";

const scratch = mkdtempSync(join(tmpdir(), "perigee-cli-"));
const llama = fixturePath("llama");
const { cases } = openRecordedModel("llama");
const exact = ["--temperature", "0", "--dtype", "float32", "--device", "cpu"];
const recorded = [...exact, "--max-tokens", "24", "--min-tokens", "24", "--speculative", "off"];

afterAll(() => rmSync(scratch, { recursive: true }));

describe.runIf(built)("perigee generate", () => {
  test("prints a JSON object per completion, with the recorded tokens", async () => {
    const words = cases.flatMap(({ prompt }) => ["--prompt-ids", prompt.join(",")]);
    const ran = await perigeeInside(["generate", llama, ...words, ...recorded, "--json"]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(jsonLines(ran.stdout)).toEqual(
      cases.map(({ prompt, greedy }, place) => ({
        prompt_index: place,
        index: 0,
        prompt_token_ids: prompt,
        token_ids: greedy,
        text: null,
        finish_reason: "length",
        stop_reason: null,
        cumulative_logprob: expect.any(Number),
        cached_tokens: expect.any(Number),
      })),
    );
  });

  test("writes the prompt's logits as safetensors", async () => {
    const file = join(scratch, "logits.safetensors");
    // A checkpoint is opened to read it: it wants a config beside its tensors.
    copyFileSync(join(llama, "config.json"), join(scratch, "config.json"));
    const prompt = cases[2]?.prompt ?? [];
    const words = ["--prompt-ids", prompt.join(","), "--logits-out", file, "--json"];
    expect((await perigeeInside(["generate", llama, ...words, ...recorded])).code).toBe(0);
    const logits = openCheckpoint(file).tensors.get("logits");
    expect(logits).toMatchObject({ dtype: "f32", shape: [prompt.length, 320] });
    const values = decodeFloats(logits?.bytes() ?? new Uint8Array(), "f32");
    expect(worstDifference(values, cases[2]?.tensor("logits") ?? values)).toBeLessThan(1e-4);
  });

  test("reads prompts from a file or a pipe, and writes completions to a file", async () => {
    const input = join(scratch, "prompts.jsonl");
    const output = join(scratch, "out.jsonl");
    const rows = [{ prompt: "Hello" }, { prompt_token_ids: [40, 41], max_tokens: 2 }];
    const lines = rows.map((row) => JSON.stringify(row));
    writeFileSync(input, `${lines.join("\n")}\n\n`);
    const words = ["generate", "--temperature", "0", "--max-tokens", "3"];
    const ran = await perigeeInside([...words, "--input", input, "--output", output]);
    expect(ran).toEqual({ code: 0, stdout: "", stderr: "" });
    const written = jsonLines(readFileSync(output, "utf8"));
    expect(written.map(({ prompt_index, text }) => [prompt_index, typeof text])).toEqual([
      [0, "string"],
      [1, "string"],
    ]);
    expect(written[1]?.token_ids).toHaveLength(2);
    const piped = await perigee([...words, "--input", "-", "--json"], { input: lines.join("\n") });
    expect(jsonLines(piped.stdout).map((line) => line.token_ids)).toEqual(
      written.map((line) => line.token_ids),
    );
  });

  test("prints plain text, several prompts in order, without progress in a pipe", async () => {
    const words = ["generate", "-p", "Hello", "-p", "A queue", "--max-tokens", "4"];
    const ran = await perigee([...words, "--temperature", "0"]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout.split("\n").length).toBeGreaterThanOrEqual(3);
  });

  test("takes sampling, structure and log-probabilities from flags", async () => {
    const structure = JSON.stringify({ choice: ["north", "south"] });
    const words = ["--structured-output", structure, "--n", "2", "--seed", "5", "--logprobs", "1"];
    const common = ["--temperature", "1", "--json"];
    const ran = await perigeeInside(["generate", "-p", "Go", ...words, ...common]);
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    const lines = jsonLines(ran.stdout);
    expect(lines.map(({ index }) => index)).toEqual([0, 1]);
    for (const { text, logprobs } of lines) {
      expect(["north", "south"]).toContain(text);
      expect(logprobs).toBeInstanceOf(Array);
    }
  });

  test("continues the text of a pipe, and switches need no value", async () => {
    const words = ["generate", "--ignore-eos", "models/pocket", "--max-tokens", "3"];
    const ran = await perigee([...words, "--temperature", "0"], { input: "Hello\n" });
    expect(ran).toMatchObject({ code: 0, stderr: "" });
    expect(ran.stdout).toMatch(/.\n$/);
  });

  test("shows text as it is made, and keeps it at an interrupt", async () => {
    const words = ["generate", "-p", "Hello", "--max-tokens", "1900", "--ignore-eos"];
    const ran = await perigee(words, { signal: "SIGINT" });
    expect(ran.code).toBe(130);
    expect(ran.stdout).toMatch(/.\n$/s);
    expect(ran.stderr).toMatch(/^perigee: interrupted: \d+ tokens were generated\n$/);
  });

  test("keeps what is finished at an interrupt", async () => {
    const long = { max_tokens: 1900, ignore_eos: true };
    const rows = [
      { prompt: "A", max_tokens: 1 },
      { prompt: "B", ...long },
      { prompt: "C", ...long },
    ];
    const input = rows.map((row) => JSON.stringify(row)).join("\n");
    const ran = await perigee(["generate", "--input", "-", "--json"], { input, signal: "SIGINT" });
    expect(ran.code).toBe(130);
    expect(jsonLines(ran.stdout).map((line) => line.prompt_index)).toEqual([0]);
    expect(ran.stderr).toBe("perigee: interrupted: 1 of 3 prompts are finished\n");
  });
});

describe.runIf(built)("perigee generate with a prompt that cannot be", () => {
  const prompts = ["one", "x".repeat(9000), "two"].map((prompt) => JSON.stringify({ prompt }));
  const flags = ["--max-tokens", "3", "--temperature", "0"];

  /** `generate` of the rows of a file. */
  function fromFile(rows: readonly string[], ...more: string[]) {
    const input = join(scratch, "refused.jsonl");
    writeFileSync(input, rows.join("\n"));
    return perigeeInside(["generate", "--input", input, ...flags, ...more]);
  }

  test("writes an error in its place, generates the others and fails at the end", async () => {
    const words = ["generate", "--input", "-", ...flags, "--json"];
    const ran = await perigee(words, { input: prompts.join("\n") });
    expect(ran).toMatchObject({
      code: 1,
      stderr: "perigee: Cannot generate all prompts: 1 of 3 failed; see their errors\n",
    });
    const lines = jsonLines(ran.stdout);
    expect(lines.map(({ prompt_index: place, error }) => [place, error !== undefined])).toEqual([
      [0, false],
      [1, true],
      [2, false],
    ]);
    expect(lines[1]?.error).toEqual({
      code: "PROMPT_TOO_LONG",
      message: expect.stringMatching(/prompt must fit 2047 tokens.*\(standard input, line 2\)/),
    });
  });

  test("goes on past rows that mean harm, each with an error of its own", async () => {
    const rows = [
      '{"prompt": "one"}',
      '{"prompt": "x", "temperature": 1e308}',
      '{"prompt": "x", "structured_output": {"regex": "("}}',
      '{"prompt_token_ids": [99999999]}',
      '{"prompt": "x", "structured_output": [null]}',
      '{"prompt": "x", "nonsense": 1}',
      "{",
      '"two"',
    ];
    const ran = await fromFile(rows, "--json");
    expect(ran.code).toBe(1);
    expect(ran.stderr).toBe(
      "perigee: Cannot generate all prompts: 6 of 8 failed; see their errors\n",
    );
    const lines = jsonLines(ran.stdout);
    expect(lines.map(({ prompt_index }) => prompt_index)).toEqual([0, 1, 2, 3, 4, 5, 6, 7]);
    expect(lines.map(({ error }) => error !== undefined)).toEqual(
      rows.map((row) => !/one|two/.test(row)),
    );
  });

  test("names it on standard error where results are text", async () => {
    const ran = await fromFile(prompts);
    expect(ran.code).toBe(1);
    expect(ran.stdout).not.toBe("");
    expect(ran.stderr).toMatch(/prompt must fit .*line 2\)\nperigee: Cannot generate all prompts/);
  });

  test("says which flags make room for it", async () => {
    const pool = ["--kv-pool-bytes", String(6 * 98_304), "--beam-width", "4"];
    const words = ["generate", "-p", "Hello there", ...pool, "--max-tokens", "60"];
    const ran = await perigeeInside(words);
    expect(ran.stderr).toMatch(
      /need \d+ blocks, the KV pool has 6; lower --beam-width or --max-tokens, or raise --kv-pool-b/,
    );
  });
});

/** Words, exit code and remedy. Those without a prompt read standard input. */
const REFUSED: [string, string[], number, string][] = [
  ["a wrong choice", ["-p", "x", "--device", "tpu"], 2, "auto, cpu, cuda, reference."],
  ["a pool too small", ["-p", "x", "--kv-pool-bytes", "10"], 2, "raise --kv-pool-bytes, or"],
  ["text for a model without words", [llama, "-p", "x"], 2, "give token ids instead of text"],
  ["a prompt too long", ["-p", "x".repeat(9000)], 2, "prompt must fit 2047 tokens"],
  ["an unknown flag", ["--temprature", "1"], 2, "(Did you mean --temperature?)"],
  ["a file that is not there", ["--input", "/nope.jsonl"], 1, "it does not exist"],
  ["no prompt", [], 2, "perigee: Cannot generate: wanted a prompt (-p TEXT, "],
  ["a prompt without its flag", ["Hello"], 2, 'got none, "Hello" was taken as the model'],
  ["a number out of range", ["-p", "x", "--temperature", "9"], 2, "must be at most 2, current"],
  ["an id beyond the vocabulary", ["--prompt-ids", "99999"], 2, "integers from 0 to 4095"],
  ["a bad grammar", ["-p", "x", "--structured-output", '{"regex":"("}'], 2, "Cannot"],
  ["a folder that is not there", ["-p", "x", "--output", "no/o"], 1, "its folder does not exist"],
  ["logits of two prompts", ["-p", "x", "-p", "y", "--logits-out", "z"], 2, "wanted one prompt"],
  ["a host level too large", ["-p", "x", "--host-cache-bytes", "9e15"], 2, "lower --host-cache"],
];

describe.runIf(built)("perigee generate refuses, in one line and with a remedy:", () => {
  test.for(REFUSED)("%s", async ([name, words, code, remedy]) => {
    const readsInput = name === "no prompt" || name === "a prompt without its flag";
    const ran = await (readsInput ? perigee : perigeeInside)(["generate", ...words]);
    const lines = ran.stderr.split("\n").filter((line) => !line.startsWith("warning:"));
    expect(lines).toEqual([expect.stringContaining(remedy), ""]);
    expect(lines[0]).toMatch(/^perigee: /);
    expect(ran).toMatchObject({ code, stdout: "" });
  });

  test("a model that is not there, and --verbose adds the stack", async () => {
    const words = ["generate", "none/there", "-p", "x", "--offline"];
    for (const line of sized(
      [["--verbose", ...words]],
      [
        [...words, "--verbose"],
        ["--verbose", ...words],
      ],
    )) {
      const ran = await perigeeInside(line);
      expect(ran).toMatchObject({ code: 1, stdout: "" });
      const [first, ...stack] = ran.stderr.split("\n");
      expect(first).toMatch(/^perigee: .*perigee models pull none\/there/);
      expect(stack.join("\n")).toContain("    at ");
    }
  });

  const hello = ["generate", "-p", "Hello", "--max-tokens", "1", "--json"];
  test.for(
    sized(
      [[...hello, "--verbose"]],
      [
        [...hello, "--verbose"],
        ["--verbose", ...hello],
      ],
    ),
  )("--verbose tells what loading took, wherever it stands", async (words) => {
    const { stderr } = await perigeeInside(words);
    expect(stderr).toMatch(/^perigee: loading: files \d.*weights \d.*since the process began\n$/);
  });
});
