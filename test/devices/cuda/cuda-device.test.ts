/** A recorded model, its first prompt, on the emulated GPU; parity.test.ts has all of them. */
import { expect, test } from "vitest";
import type { KvFormat, WeightFormat } from "#devices";
import { DecoderDriver } from "../../contracts/decoder-driver.ts";
import { openRecordedModel, worstDifference } from "../../contracts/recorded-model.ts";
import { describeEmulated } from "./describe-emulated.ts";
import { openEmulated } from "./emulated-device.ts";

const formats: readonly { format: WeightFormat; kvFormat: KvFormat; logits: number }[] = [
  { format: "f32", kvFormat: "f32", logits: 1e-3 },
  { format: "bf16", kvFormat: "bf16", logits: 0.1 },
  { format: "i8", kvFormat: "fp8", logits: 0.5 },
];

describeEmulated("cuda on an emulated GPU", openEmulated, (device) => {
  test.for(formats)(
    "a recorded model computes what was recorded: $format, keys and values in $kvFormat",
    async ({ format, kvFormat, logits }) => {
      const { model, sources, cases } = openRecordedModel("qwen3-moe");
      if (model.kind !== "decoder") throw new Error("A recorded decoder is wanted");
      const driver = new DecoderDriver({ device, model, sources, format, kvFormat, sequences: 1 });
      const [first] = cases;
      const prompt = first?.prompt ?? [];
      driver.step([{ sequence: 0, tokens: prompt }]);
      const actual = await driver.logits(prompt.map((_, row) => row));
      const wanted = first?.tensor("logits") ?? new Float32Array();
      expect(worstDifference(actual, wanted)).toBeLessThanOrEqual(logits);
    },
  );
});
