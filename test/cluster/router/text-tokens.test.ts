import { expect, test } from "vitest";
import { textTokens } from "../../../src/cluster/router/text-tokens.ts";

test("parts of a text are the numbers of the whole", () => {
  const parts = ["\nuser: ", "größe → 😀", "", "plain words", "é"];
  const whole = Buffer.from(parts.join(""));
  const words = Math.floor(whole.length / 4);
  const wanted = Array.from({ length: words }, (_, at) => whole.readUInt32LE(4 * at));
  expect([...textTokens(parts)]).toEqual(wanted);
  expect([...textTokens([parts.join("")])]).toEqual(wanted);
  expect(textTokens([]).length).toBe(0);
});
