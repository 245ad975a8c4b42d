import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";
import { sized } from "../support/full.ts";

/** Plain attention, softcaps beside windows, and learned positions. */
const few = ["llama", "gemma2", "gpt2"];

speculationContract({ device: "cpu", fixtures: sized(few, decoderFixtures), varied: "llama" });
