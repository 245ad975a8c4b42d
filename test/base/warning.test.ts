import { execFile } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { warnOnStandardError } from "#base";

const run = promisify(execFile);

test("a warning without a listener is one of the process", async () => {
  const heard = new Promise((resolve) => process.once("warning", resolve));
  warnOnStandardError("something went another way");
  expect(await heard).toMatchObject({
    name: "PerigeeWarning",
    message: "something went another way",
  });
});

test.runIf(existsSync("dist/index.js"))(
  "LLM.load without a compiled library warns on standard error, unless told otherwise",
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "perigee-bare-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    for (const part of ["package.json", "dist"]) {
      cpSync(part, join(folder, part), { recursive: true });
    }
    const model = JSON.stringify(resolve("test/fixtures/models/llama"));
    symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
    const load = (options: string) => {
      const script = `
        import { LLM } from ${JSON.stringify(join(folder, "dist/index.js"))};
        const llm = await LLM.load(${model}, ${options});
        await llm[Symbol.asyncDispose]();`;
      return run(process.execPath, ["--input-type=module", "--eval", script]);
    };
    expect((await load("{}")).stderr).toMatch(/PerigeeWarning: .*native/s);
    expect((await load("{ onWarning: () => {} }")).stderr).toBe("");
  },
);
