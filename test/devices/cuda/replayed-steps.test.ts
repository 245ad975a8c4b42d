/** Decoding steps that are padded, captured and launched on the emulated GPU. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Device, type DeviceTensor, ReferenceDevice } from "#devices";
import { warmUp } from "#models";
import { CudaDevice } from "../../../src/devices/cuda/cuda-device.ts";
import { DecoderDriver } from "../../contracts/decoder-driver.ts";
import { openRecordedModel, worstDifference } from "../../contracts/recorded-model.ts";
import { emulatedSettings } from "./emulated-device.ts";

const settings = emulatedSettings();
const sequences = 5;

function driverOn(device: Device): DecoderDriver {
  const { model, sources } = openRecordedModel("llama");
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return new DecoderDriver({ device, model, sources, sequences });
}

/** Logits of some decoding steps whose ids, but for the first, come from `sampled`. */
async function decoded(driver: DecoderDriver, device: Device, sampled: DeviceTensor) {
  const all: number[] = [];
  const prompts = [[1, 2, 3], [4, 5], [6]];
  driver.step(prompts.map((tokens, sequence) => ({ sequence, tokens })));
  for (let step = 0; step < 5; step++) {
    device.write(sampled, Int32Array.of(7 + step, 8, 9 * step));
    const tokenSources = Int32Array.of(2, -1, 0);
    const chunks = [0, 1, 2].map((sequence) => ({ sequence, tokens: [11 + step] }));
    driver.step(chunks, { samplesAll: true, tokenSources, sampled });
    const logits = driver.decoder.samplingLogits();
    if (logits !== null) all.push(...(await device.readF32(logits)));
  }
  return Float32Array.from(all);
}

describe.skipIf(settings === null)("decoding on an emulated GPU", () => {
  let device: CudaDevice;
  let plain: CudaDevice;
  const warnings: string[] = [];
  beforeAll(async () => {
    const warn = (message: string) => warnings.push(message);
    device = await CudaDevice.open({ settings: settings ?? {}, warn });
    plain = await CudaDevice.open({ settings: { ...settings, graphs: false } });
  });
  afterAll(() => {
    device.dispose();
    plain.dispose();
  });

  test("a launched step computes what its ops do one by one, made ahead or not", async () => {
    const on = async (on: Device, ahead: boolean) => {
      const driver = driverOn(on);
      const sampled = on.allocate("i32", [sequences]);
      const { decoder, cache } = driver;
      if (ahead) await warmUp({ device: on, decoder, cache, sampled, contextTokens: 100 });
      return await decoded(driver, on, sampled);
    };
    const wanted = await on(new ReferenceDevice(), false);
    const unkept = await on(plain, false);
    expect(worstDifference(unkept, wanted)).toBeLessThan(1e-3);
    expect(await on(device, false)).toEqual(unkept);
    expect(await on(device, true)).toEqual(unkept);
    expect(warnings).toEqual([]);
  });
});
