import { spawn, spawnSync } from "node:child_process";
import { chmodSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { describe, expect, test } from "vitest";
import { readSettingsText } from "../../../src/cli/configuration/settings-text.ts";
import { perigeeInside } from "../perigee.ts";
import { temporaryFile } from "./settings-file.ts";

test("a file's text, also an empty one's", () => {
  expect(readSettingsText(temporaryFile("a.yaml", "port: 1 # ä 🚀\n"))).toBe("port: 1 # ä 🚀\n");
  expect(readSettingsText(temporaryFile("a.yaml", ""))).toBe("");
  expect(readSettingsText("/dev/null")).toBe("");
});

test("more bytes than settings can have are not read", () => {
  const file = temporaryFile("a.yaml", `a: ${"x".repeat(300_000)}`);
  const message = "must have at most 262144 bytes, current value is more";
  expect(() => readSettingsText(file)).toThrow(message);
});

test("a binary file of any length is told to be one", () => {
  const message = (file: string) =>
    `Cannot use ${file}: must be a YAML file of settings, it is no text but a binary file`;
  for (const file of [process.execPath, "/dev/zero"]) {
    expect(() => readSettingsText(file)).toThrow(message(file));
  }
  const short = temporaryFile("a.yaml", "");
  writeFileSync(short, Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0x02, 0x01, 0x01, 0x00]));
  expect(() => readSettingsText(short)).toThrow(message(short));
});

describe("a file that cannot be read says why", () => {
  const wanted = "wanted a YAML file of settings";

  test("none", () => {
    const message = `Cannot read none-such.yaml: ${wanted}, it does not exist`;
    expect(() => readSettingsText("none-such.yaml")).toThrow(message);
  });

  test("a folder", () => {
    const folder = dirname(temporaryFile("a.yaml", ""));
    expect(() => readSettingsText(folder)).toThrow(`${wanted}, it is a folder`);
  });

  test("one below a file", () => {
    const file = `${temporaryFile("a.yaml", "")}/b.yaml`;
    expect(() => readSettingsText(file)).toThrow("what should be its folder is a file");
  });

  test.skipIf(process.getuid?.() === 0)("without permission (root may read all)", () => {
    const file = temporaryFile("secret.yaml", "port: 1");
    chmodSync(file, 0o000);
    expect(() => readSettingsText(file)).toThrow(`${wanted}, this user may not`);
  });
});

describe("what is no text in UTF-8 is told with its place", () => {
  test.for<[string, Uint8Array, string]>([
    [
      "Latin-1",
      Buffer.from("a: 1\nb: caf\xe9\n", "latin1"),
      "line 2, column 7: must be text in UTF-8",
    ],
    ["UTF-16", Buffer.from("\uFEFFa: 1\n", "utf16le"), "line 1, column 1: must be text in UTF-8"],
    ["a program", Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0x80]), "line 1, column 5: "],
  ])("%s", ([, bytes, message]) => {
    const file = temporaryFile("a.yaml", "");
    writeFileSync(file, bytes);
    expect(() => readSettingsText(file)).toThrow(message);
  });
});

const cannotMakePipes = spawnSync("mkfifo", ["--version"]).error !== undefined;

describe.skipIf(cannotMakePipes)("pipes", () => {
  const pipe = (name: string) => {
    const file = `${temporaryFile("a.yaml", "")}-${name}`;
    expect(spawnSync("mkfifo", [file]).status).toBe(0);
    return file;
  };

  test("one into which nothing writes is not waited for", () => {
    const file = pipe("silent");
    expect(() => readSettingsText(file, 30)).toThrow(
      `Cannot read ${file}: wanted a YAML file of settings, it is a pipe that gave nothing for ` +
        "0.03 s; name a file, or start first what writes into the pipe",
    );
  });

  test("one that is opened for writing and stays silent is not waited for", () => {
    const file = pipe("open");
    // Opened for both, so that it does not wait for a reader.
    const holder = spawn("sh", ["-c", `exec 3<>"${file}"; read -r line`], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    try {
      expect(() => readSettingsText(file, 300)).toThrow("gave nothing for 0.3 s");
    } finally {
      holder.kill("SIGKILL");
    }
  });

  test("one that is written into later is read to its end, in pieces", () => {
    const file = pipe("late");
    // Another process, which goes on while this thread waits for it.
    spawn("sh", ["-c", `yes "port: 1" | head -n 20000 > "${file}"`], { stdio: "ignore" });
    expect(readSettingsText(file, 20_000)).toBe("port: 1\n".repeat(20_000));
  });
});

test("a command ends with the place, the remedy and the code of wrong use", async () => {
  const file = temporaryFile("a.yaml", "serve:\n  port: 1\n  prot: 2\n");
  const { stderr, code } = await perigeeInside(["serve", "--config", file]);
  expect(stderr).toBe(
    `perigee: Cannot use ${file}, line 3, column 3: prot is no setting of perigee serve; did ` +
      "you mean port?\n",
  );
  expect(code).toBe(2);
});
