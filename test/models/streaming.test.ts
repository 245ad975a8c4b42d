import { expect, test } from "vitest";
import { ReferenceDevice } from "#devices";
import { cacheWindow, checkStreaming, type DecoderModel, type DecoderSpec } from "#models";
import { DecoderDriver } from "../contracts/decoder-driver.ts";
import { openRecordedModel, worstDifference } from "../contracts/recorded-model.ts";

function openDecoder(fixture: string) {
  const { model, ...rest } = openRecordedModel(fixture);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return { model, ...rest };
}

type Asked = Omit<ConstructorParameters<typeof DecoderDriver>[0], "device" | "model" | "sources">;

function driverOf(fixture: string, asked: Asked, change = (spec: DecoderSpec) => spec) {
  const { model, sources } = openDecoder(fixture);
  const changed: DecoderModel = { ...model, spec: change(model.spec) };
  return new DecoderDriver({ device: new ReferenceDevice(), model: changed, sources, ...asked });
}

/** Logits [rows, V] of a sequence's last `rows` tokens, computed `chunk` tokens at a time. */
async function logitsOf(driver: DecoderDriver, tokens: readonly number[], chunk: number) {
  const all: number[] = [];
  for (let start = 0; start < tokens.length; start += chunk) {
    const part = tokens.slice(start, start + chunk);
    driver.step([{ sequence: 0, tokens: part }]);
    all.push(...(await driver.logits(part.map((_, row) => row))));
  }
  return Float32Array.from(all);
}

const text = (length: number): number[] => Array.from({ length }, (_, i) => 1 + ((i * 7) % 50));

const withWindows = (spec: DecoderSpec, windows: readonly (number | null)[]): DecoderSpec => ({
  ...spec,
  layers: spec.layers.map((layer, i) => ({
    ...layer,
    window: windows[i % windows.length] ?? null,
  })),
});

test("a window that is asked for does what a model's own does", async () => {
  const fixture = "mistral-sliding-window";
  const { cases, model } = openDecoder(fixture);
  const [window] = model.spec.layers.map((layer) => layer.window);
  if (typeof window !== "number") throw new Error("The fixture has a window");
  const streaming = { window, sinkTokens: 0 };
  for (const { prompt, tensor } of cases.filter(({ prompt }) => prompt.length > window)) {
    const driver = driverOf(fixture, { streaming }, (spec) => withWindows(spec, [null]));
    const logits = await logitsOf(driver, prompt, prompt.length);
    expect(worstDifference(logits, tensor("logits"))).toBeLessThan(1e-3);
  }
});

test("sinks change nothing while the window shows everything, and something afterwards", async () => {
  const tokens = text(30);
  const { vocabularySize } = openDecoder("llama").model.spec;
  const plain = await logitsOf(driverOf("llama", {}), tokens, 30);
  const streaming = { window: 20, sinkTokens: 4 };
  const streamed = await logitsOf(driverOf("llama", { streaming }), tokens, 30);
  const same = 20 * vocabularySize;
  expect(streamed.subarray(0, same)).toEqual(plain.subarray(0, same));
  expect(worstDifference(streamed.subarray(same), plain.subarray(same))).toBeGreaterThan(1e-3);
});

test.for([1, 7])("chunks of %i tokens give the same as one piece, with sinks", async (chunk) => {
  const streaming = { window: 20, sinkTokens: 4 };
  const tokens = text(50);
  const whole = await logitsOf(driverOf("llama", { streaming }), tokens, 50);
  const cut = await logitsOf(driverOf("llama", { streaming }), tokens, chunk);
  expect(worstDifference(cut, whole)).toBeLessThan(1e-5);
});

test("with sinks a sequence may be longer than the model was made for", async () => {
  const shorten = (spec: DecoderSpec): DecoderSpec => ({ ...spec, contextTokensMax: 24 });
  const asked = { contextTokens: 60, streaming: { window: 20, sinkTokens: 4 } };
  const tokens = text(60);
  const logits = await logitsOf(driverOf("llama", asked, shorten), tokens, 20);
  const whole = await logitsOf(driverOf("llama", asked), tokens, 20);
  // Angles behind the model's context are not rounded: no more than that differs.
  expect(worstDifference(logits, whole)).toBeLessThan(1e-4);
});

test("a cache may forget what the largest window hides, if every layer has one", () => {
  const { spec } = openDecoder("llama").model;
  const streaming = { window: 100, sinkTokens: 3 };
  expect(cacheWindow(spec, null)).toBeNull();
  expect(cacheWindow(spec, streaming)).toEqual({ tokens: 100, sinkTokens: 3 });
  expect(cacheWindow(withWindows(spec, [8, 32]), null)).toEqual({ tokens: 32, sinkTokens: 0 });
  expect(cacheWindow(withWindows(spec, [8, null]), null)).toBeNull();
  const plain = { window: 16, sinkTokens: 0 };
  expect(cacheWindow(withWindows(spec, [8, null]), plain)).toEqual({ tokens: 16, sinkTokens: 0 });
});

test.for([
  ["gpt2", { window: 16, sinkTokens: 2 }, "positions must be rotary"],
  ["opt", { window: 16, sinkTokens: 2 }, "positions must be rotary"],
  ["gemma2", { window: 16, sinkTokens: 2 }, "windows of their own"],
  ["mistral-sliding-window", { window: 16, sinkTokens: 2 }, "windows of their own"],
  ["llama", { window: 1 << 20, sinkTokens: 2 }, "attentionWindow must be at most"],
] as const)("sinks are refused for %s with %o", ([fixture, streaming, message]) => {
  const { spec } = openDecoder(fixture).model;
  const refused = expect.objectContaining({ code: "INVALID_ARGUMENT" });
  expect(() => checkStreaming(spec, streaming)).toThrow(message);
  expect(() => checkStreaming(spec, streaming)).toThrow(refused);
  expect(() => driverOf(fixture, { streaming })).toThrow(refused);
  // Every model may have a plain window.
  checkStreaming(spec, { ...streaming, sinkTokens: 0 });
});
