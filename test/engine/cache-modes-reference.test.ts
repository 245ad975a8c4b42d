import { describe } from "vitest";
import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";
import { full } from "../support/full.ts";

// The cpu device runs the same contract in both sizes; the reference device takes eight seconds.
describe.runIf(full)("the reference device", () => {
  cacheModesContract({ device: "reference", together: ["llama"], apart: [], varied: [] });
});
