import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";
import { sized } from "../support/full.ts";

speculationContract({
  device: "reference",
  fixtures: sized(["llama"], decoderFixtures),
  varied: sized("none", "gemma2"),
  // Its ops are plain loops: what cpu and cuda run at full size is enough of the rest.
  networks: 1,
  structured: false,
  ...sized({ prompts: 2, widths: [4], newTokens: 24 }, { prompts: 4 }),
});
