/** Steps that start before the ones before them end bring the same tokens. */
import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";
import { engineParityContract } from "../contracts/engine-parity.ts";
import { decoderFixtures } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";

const few = ["llama", "gemma2", "mistral-sliding-window"];

engineParityContract("cpu", {}, true, sized(few, decoderFixtures));
cacheModesContract({
  device: "cpu",
  overlapSteps: true,
  together: ["mistral-sliding-window"],
  apart: sized([], ["llama"]),
  varied: [],
});
