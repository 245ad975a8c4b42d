import { decoderFixtures } from "../contracts/recorded-model.ts";
import { speculationContract } from "../contracts/speculation.ts";
import { sized } from "../support/full.ts";

/** Plain attention, softcaps beside windows, learned positions, and a window that bounds blocks. */
const few = ["llama", "gemma2", "gpt2", "mistral-sliding-window"];

speculationContract({ device: "cpu", fixtures: sized(few, decoderFixtures), varied: "llama" });
