/** What every device promises for every op: what `src/devices/reference/<op>.ts` computes. */
import { afterAll, beforeAll, describe } from "vitest";
import type { Device } from "#devices";
import { attentionOps } from "./device-ops/attention.ts";
import { batchIndependence } from "./device-ops/batch-independence.ts";
import { blockMoves, tokenMoves } from "./device-ops/block-moves.ts";
import { drafterOps } from "./device-ops/drafter.ts";
import { extremes } from "./device-ops/extremes.ts";
import { hostSlots } from "./device-ops/host-slots.ts";
import { linearActivateOps } from "./device-ops/linear-activate.ts";
import { logitOps } from "./device-ops/logits.ts";
import { DevicePair } from "./device-ops/pair.ts";
import { quantisedKv } from "./device-ops/quantised-kv.ts";
import { rowOps } from "./device-ops/rows.ts";
import { stepOps } from "./device-ops/steps.ts";
import { windowOps } from "./device-ops/windows.ts";

/** Runs all ops but plain matrix products on `open()` beside their definitions. */
export function deviceOpsContract(name: string, open: () => Device): void {
  describe(name, () => {
    let pair: DevicePair;
    beforeAll(() => {
      pair = new DevicePair(open());
    });
    afterAll(() => pair.dispose());

    rowOps(() => pair);
    stepOps(() => pair);
    linearActivateOps(() => pair);
    attentionOps(() => pair);
    batchIndependence(() => pair);
    blockMoves(() => pair.tested);
    tokenMoves(() => pair.tested);
    hostSlots(() => pair.tested);
    quantisedKv(() => pair);
    windowOps(() => pair);
    logitOps(() => pair);
    drafterOps(() => pair);
    extremes(() => pair);
  });
}
