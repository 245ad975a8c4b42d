import { expect, test } from "vitest";
import { EngineOptions, type LoadOptions } from "#engine";
import { idleSettings } from "../../src/engine/thread/idle-settings.ts";

function idle(options: LoadOptions, hostBlocks = 0): readonly string[] {
  return idleSettings(EngineOptions.parse(options), { hostBlocks, modelTokens: 2048 });
}

const disk = { diskCacheBytes: 2 ** 30, diskCacheDir: "cache" };

test.for<[string, LoadOptions, string]>([
  ["swap without host memory", { scheduler: { preemption: "swap" } }, "hostCacheBytes"],
  ["a folder without room", { kvCache: { diskCacheDir: "cache" } }, "diskCacheBytes"],
  ["a disk level without reuse", { kvCache: { ...disk, prefixCaching: false } }, "prefixCaching"],
  [
    "host memory without reuse and swap",
    {
      kvCache: { hostCacheBytes: 1, prefixCaching: false },
      scheduler: { preemption: "recompute" },
    },
    "host memory",
  ],
  [
    "a context beyond the model's",
    { scheduler: { contextTokensMax: 4096 } },
    "the model's 2048 tokens: contextTokensMax must be at most that",
  ],
])("%s is told of in one sentence", ([, options, named]) => {
  expect(idle(options)).toEqual([expect.stringContaining(named)]);
});

test("what has an effect is not told of", () => {
  expect(idle({})).toEqual([]);
  expect(idle({ scheduler: { preemption: "swap" } }, 8)).toEqual([]);
  expect(idle({ kvCache: disk })).toEqual([]);
  expect(idle({ scheduler: { contextTokensMax: 2048 } })).toEqual([]);
  expect(idle({ kvCache: { hostCacheBytes: 1, prefixCaching: false } })).toEqual([]);
  const streaming = { attentionWindow: 256, attentionSinks: 4 };
  expect(idle({ kvCache: streaming, scheduler: { contextTokensMax: 4096 } })).toEqual([]);
});
