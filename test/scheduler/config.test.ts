import { expect, test } from "vitest";
import { SchedulerConfig } from "#scheduler";

test("[SC1] an empty configuration is a full one", () => {
  expect(SchedulerConfig.parse({})).toEqual({
    stepTokensMax: 512,
    runningSequencesMax: 256,
    waitingSequencesMax: 1024,
    longPrefillTokensMax: null,
    prefillMsMax: null,
    chunkedPrefill: true,
    policy: "fcfs",
    preemption: "auto",
    returnHeadroomBlocks: 1,
    contextTokensMax: null,
  });
});

test("[SC1] a step must have room for a token of each running sequence", () => {
  const result = SchedulerConfig.safeParse({ stepTokensMax: 8, runningSequencesMax: 9 });
  expect(result.error?.issues[0]?.path).toEqual(["stepTokensMax"]);
});

test("unknown fields and pieces without chunking are refused", () => {
  expect(SchedulerConfig.safeParse({ maxTokens: 1 }).success).toBe(false);
  const pieces = { chunkedPrefill: false, longPrefillTokensMax: 100 };
  expect(SchedulerConfig.safeParse(pieces).success).toBe(false);
});
