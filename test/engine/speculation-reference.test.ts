import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";
import { sized } from "../support/full.ts";

speculationContract({
  device: "reference",
  fixtures: sized(["llama"], decoderFixtures),
  varied: sized("none", "gemma2"),
  ...sized({ prompts: 2, widths: [4] }, {}),
});
