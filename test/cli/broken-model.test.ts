/** Files of a model that cannot be used end a command with a word, on whatever thread they are read. */
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, test } from "vitest";
import { eachNth, sized } from "../support/full.ts";
import { built, perigee, perigeeInside } from "./perigee.ts";

const run = promisify(execFile);
const scratch = mkdtempSync(join(tmpdir(), "perigee-broken-"));

afterAll(() => rmSync(scratch, { recursive: true }));

/** The bundled model with one file of another content. */
function brokenModel(name: string, file: string, content: string): string {
  const folder = mkdtempSync(join(scratch, `${name}-`));
  for (const other of ["config.json", "tokenizer.json", "tokenizer_config.json"]) {
    copyFileSync(join("models/pocket", other), join(folder, other));
  }
  symlinkSync(resolve("models/pocket/model.safetensors"), join(folder, "model.safetensors"));
  writeFileSync(join(folder, file), content);
  return folder;
}

/** What is broken, its file, what stands there, and a word of the error. */
const ALL_BROKEN: [string, string, string, string][] = [
  [
    "a vocabulary that is a number",
    "tokenizer.json",
    '{"model":{"type":"BPE","vocab":5}}',
    "vocab",
  ],
  ["a tokenizer that is no JSON", "tokenizer.json", "{", "tokenizer.json"],
  ["a tokenizer's config that is no JSON", "tokenizer_config.json", "[", "tokenizer_config.json"],
  ["a chat template that is no template", "chat_template.jinja", "{% if", "template"],
];

/**
 * Two are read on different threads; the others of these take the same path. In the short run one is
 * for `generate`, the other for `serve`.
 */
const BROKEN = eachNth(3, ALL_BROKEN);

describe.runIf(built)("a model with files that cannot be used", () => {
  test.for(BROKEN)(
    "%s ends generate and serve with a word",
    async ([name, file, content, word]) => {
      const folder = brokenModel(name.replaceAll(" ", "-"), file, content);
      const generate = ["generate", folder, "-p", "Hello", "--max-tokens", "1"];
      const serve = ["serve", folder, "--port", "0"];
      const one = name === BROKEN[0]?.[0] ? generate : serve;
      for (const words of sized([one], [generate, serve])) {
        const { code, stderr } = await (words === generate ? perigeeInside : perigee)(words);
        expect({ words, code }).toEqual({ words, code: 1 });
        expect(stderr).toMatch(/^perigee: Cannot /);
        expect(stderr).toContain(word);
      }
    },
  );

  test.for(BROKEN)(
    "%s rejects LLM.load, which never stays open",
    async ([, file, content, word]) => {
      const folder = brokenModel("library", file, content);
      const script = `
      import { LLM } from ${JSON.stringify(resolve("dist/index.js"))};
      try {
        await LLM.load(${JSON.stringify(folder)});
      } catch (error) {
        console.log(error.code, error.message);
      }`;
      const words = ["--input-type=module", "--eval", script];
      const { stdout } = await run(process.execPath, words);
      expect(stdout).toMatch(/^(TOKENIZER|CHECKPOINT)_INVALID /);
      expect(stdout).toContain(word);
    },
  );

  test("a mistyped --chat-template is refused, and never served as a template", async () => {
    const words = ["serve", "--port", "0", "--chat-template", join(scratch, "typo.jinja")];
    const { code, stderr } = await perigee(words);
    expect(code).toBe(2);
    expect(stderr).toContain("typo.jinja");
    expect(stderr).toMatch(/^perigee: Cannot use --chat-template: must be a file/);
  });
});
