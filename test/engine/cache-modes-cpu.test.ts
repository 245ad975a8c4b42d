import { cacheModesContract } from "../contracts/engine-parity/cache-modes.ts";
import { decoderFixtures } from "../contracts/recorded-model.ts";

cacheModesContract({
  device: "cpu",
  together: decoderFixtures,
  apart: ["llama", "gemma2", "mistral-sliding-window"],
  varied: ["llama"],
});
