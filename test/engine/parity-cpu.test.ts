import { engineParityContract } from "../contracts/engine-parity.ts";

engineParityContract("cpu");
