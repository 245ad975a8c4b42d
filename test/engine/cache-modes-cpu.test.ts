import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";
import { decoderFixtures } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";

/** Plain attention, and softcaps beside windows. */
const few = ["llama", "gemma2"];

cacheModesContract({
  device: "cpu",
  together: sized(few, decoderFixtures),
  apart: sized(["llama"], ["llama", "gemma2", "mistral-sliding-window"]),
  varied: ["llama"],
});
