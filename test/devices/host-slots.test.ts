import { describe } from "vitest";
import { openDevice, ReferenceDevice } from "#devices";
import { availableIsas } from "../../src/devices/cpu/isa.ts";
import { hostSlots } from "../contracts/device-ops/host-slots.ts";

describe("slots of host memory: reference", () => {
  hostSlots(() => new ReferenceDevice());
});

const cpu = availableIsas().length > 0 ? await openDevice({ kind: "cpu", threads: 1 }) : null;
describe.skipIf(cpu === null)("slots of host memory: cpu", () => {
  hostSlots(() => cpu ?? new ReferenceDevice());
});
