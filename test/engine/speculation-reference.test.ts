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
  newTokens: 24,
  ...sized({ prompts: 2, widths: [4] }, { prompts: 3 }),
});
