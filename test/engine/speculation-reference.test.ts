import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";
import { sized } from "../support/full.ts";

speculationContract({
  device: "reference",
  fixtures: sized(["gemma2"], decoderFixtures),
  varied: sized("none", "gemma2"),
});
