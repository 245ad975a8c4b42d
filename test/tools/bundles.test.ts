import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";

const { resolve: find } = createRequire(import.meta.url);
const esbuild = located("esbuild/bin/esbuild");
const folder = mkdtempSync(join(tmpdir(), "perigee-bundle-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** The program, its bundle, and a node_modules that has perigee. */
writeFileSync(
  join(folder, "app.ts"),
  `import { LLM } from "perigee";
async function main() {
  const llm = await LLM.load();
  const [{ completions }] = await llm.generate("Hello", { maxTokens: 3, temperature: 0 });
  console.log("tokens", completions[0].tokenIds.length);
  await llm.close();
}
main();
`,
);
mkdirSync(join(folder, "node_modules"));
symlinkSync(resolve("."), join(folder, "node_modules", "perigee"));

function located(name: string): string | null {
  try {
    return find(name);
  } catch {
    return null;
  }
}

function bundled(name: string, words: readonly string[]) {
  const out = join(folder, name);
  const flags = ["--bundle", "--platform=node", "--log-level=error", `--outfile=${out}`, ...words];
  const built = spawnSync(String(esbuild), ["app.ts", ...flags], { cwd: folder, encoding: "utf8" });
  expect(built.stderr).not.toContain("error");
  const { stdout, stderr, status } = spawnSync(process.execPath, [out], { encoding: "utf8" });
  return { stdout, stderr, status };
}

describe.skipIf(esbuild === null || !existsSync("dist/index.js"))("a bundle by esbuild", () => {
  test.for([
    ["ESM", "app.mjs", "--format=esm"],
    ["CommonJS", "app.cjs", "--format=cjs"],
  ] as const)(
    "%s with our code inside says what to do",
    { timeout: 60_000 },
    ([, name, format]) => {
      // Native add-ons that a bundler cannot read.
      const ran = bundled(name, [format, "--loader:.node=empty"]);
      expect(ran.status).not.toBe(0);
      expect(ran.stderr).toContain("Cannot run from a bundle: perigee must stay a package");
      expect(ran.stderr).toContain("esbuild --external:perigee");
    },
  );

  test("with perigee as external it runs, as an ES module", { timeout: 60_000 }, () => {
    const ran = bundled("external.mjs", ["--format=esm", "--external:perigee"]);
    expect(ran).toMatchObject({ status: 0, stdout: "tokens 3\n" });
  });
});
