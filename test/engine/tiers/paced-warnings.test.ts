import { expect, test } from "vitest";
import { PacedWarnings } from "../../../src/engine/tiers/paced-warnings.ts";

function paced() {
  const clock = { ms: 0, nowMs: () => clock.ms };
  const said: string[] = [];
  return { clock, said, warnings: new PacedWarnings(clock, (message) => said.push(message)) };
}

test("three of a kind are heard in a minute, and the first after it counts the others", () => {
  const { clock, said, warnings } = paced();
  for (let i = 0; i < 222; i++) warnings.say("damaged", `file ${i}`);
  expect(said).toEqual(["file 0", "file 1", "file 2"]);
  clock.ms = 60_000;
  warnings.say("damaged", "file 222");
  expect(said.at(-1)).toBe("file 222 (and 219 more)");
  clock.ms = 120_000;
  warnings.say("damaged", "file 223");
  expect(said.at(-1)).toBe("file 223");
});

test("kinds do not silence each other", () => {
  const { said, warnings } = paced();
  for (let i = 0; i < 5; i++) warnings.say("damaged", "damaged");
  warnings.say("lost", "lost");
  expect(said.at(-1)).toBe("lost");
});

test("the end says what was counted only", () => {
  const { said, warnings } = paced();
  for (let i = 0; i < 5; i++) warnings.say("damaged", "damaged");
  warnings.flush();
  warnings.flush();
  expect(said.slice(3)).toEqual(['Disk cache: 2 more warnings of the kind "damaged"']);
});
