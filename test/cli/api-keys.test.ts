import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { readApiKeys } from "../../src/cli/api-keys.ts";
import { scratchFolder } from "../checkpoint/scratch-folder.ts";
import { built, perigee } from "./perigee.ts";

function keyFile(content: string | Buffer, mode = 0o600): string {
  const file = join(scratchFolder(), "keys");
  writeFileSync(file, content);
  chmodSync(file, mode);
  return file;
}

async function read(sources: {
  readonly flags?: string[];
  readonly file?: string;
  readonly key?: string;
}) {
  const warnings: string[] = [];
  const { flags = [], file, key } = sources;
  const environment = key === undefined ? {} : { PERIGEE_API_KEY: key };
  const warn = (message: string) => warnings.push(message);
  const keys = await readApiKeys({ flags, file, environment, warn });
  return { keys, warnings };
}

test("a file has a key per line, with comments and empty lines", async () => {
  const file = keyFile("# of the team\nsk-one\r\n\n  sk-two  \n#sk-three\n");
  expect(await read({ file })).toEqual({ keys: ["sk-one", "sk-two"], warnings: [] });
});

test("keys of flags and file count together, that of the environment without them", async () => {
  const file = keyFile("sk-file");
  const { keys } = await read({ flags: ["sk-flag"], file, key: "sk-env" });
  expect(keys).toEqual(["sk-flag", "sk-file"]);
  expect((await read({ key: "sk-env" })).keys).toEqual(["sk-env"]);
  expect((await read({})).keys).toEqual([]);
});

test.runIf(process.getuid)("a file that others may read is used, and said to be", async () => {
  const { keys, warnings } = await read({ file: keyFile("sk-one", 0o644) });
  expect(keys).toEqual(["sk-one"]);
  expect(warnings).toEqual([
    expect.stringMatching(/Other users .* may read (.*); .*: chmod 600 \1$/),
  ]);
});

test("a file or a variable without a key does not open the server to all", async () => {
  for (const content of ["", "\n\n", "# nothing\n"]) {
    await expect(read({ file: keyFile(content) })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("must have a key, current value is none"),
    });
  }
  await expect(read({ key: "" })).rejects.toThrow("PERIGEE_API_KEY: must be visible ASCII");
});

test("a key that no header can carry is refused by line, and not told", async () => {
  for (const key of ["sk secret", "sk-secrét", "sk\u0000secret"]) {
    const reading = read({ file: keyFile(`ok\n${key}\n`) });
    await expect(reading).rejects.toThrow(/keys, line 2: must be visible ASCII characters/);
    await expect(reading).rejects.not.toThrow(/secr/);
  }
});

test("a file that is not there, or without end, is refused", async () => {
  await expect(read({ file: "/nowhere/keys" })).rejects.toMatchObject({ code: "IO" });
  if (process.platform === "linux") {
    await expect(read({ file: "/dev/zero" })).rejects.toThrow("more than 1048576 bytes");
  }
});

test.skipIf(!built)("serve tells a wrong key file before it loads the model", async () => {
  const { code, stderr } = await perigee(["serve", "nowhere", "--api-key-file", keyFile("")]);
  expect(code).toBe(2);
  expect(stderr).toContain("Cannot use --api-key-file:");
});
