import { ReferenceDevice } from "#devices";
import { parityContract } from "../../contracts/parity.ts";

parityContract("reference", () => new ReferenceDevice(), { logits: 1e-4, hidden: 1e-4 });
