import { ReferenceDevice } from "#devices";
import { parityContract } from "../../contracts/parity.ts";

const tolerances = { logits: 1e-4, hidden: 1e-4 };
parityContract("reference", () => new ReferenceDevice(), tolerances, { slow: true });
