import { engineFaultsContract } from "../contracts/engine-faults.ts";
import { sized } from "../support/full.ts";

engineFaultsContract({ device: "cpu", requests: sized(400, 10_000) });
