/** Slots of host memory on the device that defines them; others run the contract with their ops. */
import { describe } from "vitest";
import { ReferenceDevice } from "#devices";
import { hostSlots } from "../contracts/device-ops/host-slots.ts";

describe("slots of host memory: reference", () => {
  hostSlots(() => new ReferenceDevice());
});
