import { engineParityContract } from "../contracts/engine-parity.ts";
import { decoderFixtures } from "../contracts/recorded-model.ts";
import { sized } from "../support/full.ts";

// The device's own parity runs every family in both sizes: the engine above it is the same for all.
const few = ["llama", "mistral-sliding-window"];

engineParityContract("reference", {}, null, sized(few, decoderFixtures));
