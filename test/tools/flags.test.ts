import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, describe, expect, test } from "vitest";

function run(...words: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, words, { encoding: "utf8" });
  return { status, stdout, stderr };
}

test.each(["--operation", "--seed"])("%s alone is one line and code 2", (flag) => {
  const { status, stdout, stderr } = run("tools/fuzz.mjs", flag);
  expect(status).toBe(2);
  expect(stdout).toBe("");
  expect(stderr).toContain(flag);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test.each([
  ["tools/fuzz.mjs", ["--operations", "many"], 'at least 1, got "many"'],
  ["tools/fuzz.mjs", ["--operations", "0"], 'at least 1, got "0"'],
  ["bench/tiers.mjs", ["--lengths", "16,,64"], 'at least 1, got ""'],
  ["bench/start.mjs", ["--idle-seconds", "NaN"], 'at least 0, got "NaN"'],
])("%s refuses %j in one line", (file, words, wanted) => {
  const { status, stdout, stderr } = run(file, ...words);
  expect({ status, stdout }).toEqual({ status: 2, stdout: "" });
  expect(stderr).toContain(wanted);
  expect(stderr.trimEnd().split("\n")).toHaveLength(1);
});

test.each([
  ["tools/fuzz.mjs", "npm run fuzz"],
  ["bench/gpu/serve.mjs", "node bench/gpu/serve.mjs"],
])("--help of %s is its leading comment", (file, first) => {
  const { status, stdout, stderr } = run(file, "--help");
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect(stdout.startsWith(first)).toBe(true);
  for (const line of stdout.trimEnd().split("\n")) {
    expect(line).not.toMatch(/^\s*(?:\*|\/\/)/);
    expect(readFileSync(file, "utf8")).toContain(line);
  }
});

describe("results of a benchmark", () => {
  const folder = mkdtempSync(join(tmpdir(), "perigee-results-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const published = join(folder, "trial-of-flags.json");
  const script = join(folder, "bench.mjs");
  const tools = pathToFileURL(resolve("tools/flags.mjs")).href;
  writeFileSync(
    script,
    `import { writeFileSync } from "node:fs";
import { readFlags } from "${tools}";
const { values } = readFlags({
  options: { out: { type: "string", published: ${JSON.stringify(published)} } },
});
writeFileSync(values.out, "new");
`,
  );

  test("replace no published ones unasked, and say where they are", () => {
    writeFileSync(published, "old");
    const { status, stderr } = run(script);
    expect(status).toBe(0);
    expect(readFileSync(published, "utf8")).toBe("old");
    const [, file = ""] = /^results are in (.*); --publish keeps them\n$/.exec(stderr) ?? [];
    expect(file).toMatch(/bench\/\.cache\/results\/trial-of-flags\.json$/);
    expect(readFileSync(file, "utf8")).toBe("new");
    rmSync(file);
  });

  test("go to the published file with --publish, and to any other with --out", () => {
    const out = join(folder, "elsewhere", "mine.json");
    expect(run(script, "--out", out)).toMatchObject({
      status: 0,
      stderr: `results are in ${out}\n`,
    });
    expect(readFileSync(out, "utf8")).toBe("new");
    writeFileSync(published, "old");
    expect(run(script, "--publish").status).toBe(0);
    expect(readFileSync(published, "utf8")).toBe("new");
  });
});
