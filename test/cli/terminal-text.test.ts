import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { plainText } from "../../src/cli/terminal-text.ts";
import { built, perigeeInside } from "./perigee.ts";

test("control characters are written out, lines and other writing stay", () => {
  expect(plainText("a\tb\nc\r\nd \u00e9 \u65e5\u672c \u{1f600}")).toBe(
    "a\tb\nc\r\nd \u00e9 \u65e5\u672c \u{1f600}",
  );
  expect(plainText("\u001b[2J\u001b]0;owned\u0007")).toBe("\\u001b[2J\\u001b]0;owned\\u0007");
  expect(plainText("ok\rno \u009b31m \u007f \u202egnp.exe")).toBe(
    "ok\\u000dno \\u009b31m \\u007f \\u202egnp.exe",
  );
});

test("JSON stays the same JSON", () => {
  const value = { name: "\u001b[2J", other: "\u009b\u202e" };
  expect(JSON.parse(plainText(JSON.stringify(value, null, 2)))).toEqual(value);
});

/** Every character that a terminal acts on. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these must not be there
const ACTING = /[\0-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]/;
const ATTACK = "\u001b]0;owned\u0007\u009b2J\u202e";

test.runIf(built)("names in a checkpoint or a cache do nothing to a terminal", async () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-names-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const config = { model_type: `llama${ATTACK}`, [`key${ATTACK}`]: ATTACK };
  const header = JSON.stringify({
    [`w${ATTACK}`]: { dtype: "F32", shape: [1], data_offsets: [0, 4] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(header)));
  const weights = Buffer.concat([length, Buffer.from(header), Buffer.alloc(4)]);
  writeFileSync(join(folder, "config.json"), JSON.stringify(config));
  writeFileSync(join(folder, "model.safetensors"), weights);
  for (const words of [[], ["--tensors"], ["--tensors", "--json"]]) {
    const { code, stdout } = await perigeeInside(["models", "inspect", folder, ...words]);
    expect(code).toBe(0);
    expect(stdout).toContain("owned");
    expect(stdout).not.toMatch(ACTING);
  }
  const refused = await perigeeInside(["generate", folder, "--prompt-ids", "1"]);
  expect(refused.stderr).toContain("owned");
  expect(refused.stderr).not.toMatch(ACTING);

  const snapshot = join(folder, `models--a--b${ATTACK}`, "snapshots", "c0ffee");
  mkdirSync(snapshot, { recursive: true });
  writeFileSync(join(snapshot, "model.safetensors"), weights);
  const listed = await perigeeInside(["models", "list", "--cache-dir", folder]);
  expect(listed.stdout).toContain("owned");
  expect(listed.stdout).not.toMatch(ACTING);
});
