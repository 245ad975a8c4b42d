import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Runs an example as a user would, against the build. */
function run(name: string): string {
  const path = `examples/${name}.mjs`;
  return execFileSync(process.execPath, [path], { cwd: root, encoding: "utf8" });
}

test("generate prints two samples for each prompt", () => {
  const lines = run("generate").match(/^(A cache is|The function returns) … \([01], \w+\):/gm);
  expect(lines).toHaveLength(4);
});

test("stream answers from the passage and ends by itself", () => {
  const text = run("stream");
  expect(text).toContain("412 metres");
  expect(text).toMatch(/\(stop\)\n$/);
});

test("structured output fits its schema", () => {
  const text = run("structured-output");
  expect(text).toContain("Mara Velten");
  expect(text).toMatch(/age: \d+/);
});

test("the openai client gets a streamed answer", () => {
  expect(run("openai-client")).toContain("Pocket");
});
