import { expect, test } from "vitest";
import { type GenerateOptions, LLM } from "#engine";
// Not at the engine's front door: what warns is inside.
import { warnOnce } from "../../src/engine/protocol/warn-once.ts";
import { fixturePath } from "../contracts/recorded-model.ts";

test("each text is said once", () => {
  const said: string[] = [];
  const warn = warnOnce((text) => said.push(text));
  for (const text of ["a", "b", "a", "b", "c"]) warn(text);
  expect(said).toEqual(["a", "b", "c"]);
});

test("texts that callers make up do not fill a log", () => {
  const said: string[] = [];
  const warn = warnOnce((text) => said.push(text));
  for (let place = 0; place < 1000; place++) warn(`text ${place}`);
  expect(said).toHaveLength(100);
});

test("a retention that cannot help warns once, one that is wrong is refused", async () => {
  const warnings: string[] = [];
  await using llm = await LLM.load(fixturePath("llama"), {
    device: "cpu",
    engineThread: false,
    onWarning: (text) => warnings.push(text),
  });
  warnings.length = 0; // what loading had to say
  const ask = (retention: GenerateOptions["retention"]) =>
    llm.generate({ promptTokenIds: [5, 6, 7] }, { maxTokens: 1, retention: retention ?? {} });
  await ask({ ranges: [{ start: 0, end: 2, priority: 80 }] });
  expect(warnings).toEqual([]);
  const low = [
    { start: 0, end: 2, priority: 10 },
    { start: 2, priority: 90 },
  ];
  await ask({ ranges: low });
  await ask({ ranges: low });
  expect(warnings).toEqual([expect.stringContaining("priority 10")]);
  await expect(ask({ ranges: [{ start: 3, end: 2 }] })).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    param: "retention.ranges.0.end",
  });
});
