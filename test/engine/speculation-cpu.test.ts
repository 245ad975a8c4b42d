import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";

speculationContract({ device: "cpu", fixtures: decoderFixtures, varied: "llama" });
