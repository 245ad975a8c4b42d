import { expect, test } from "vitest";
import { type DecoderSpec, type KvLayoutOptions, kvLayout, plainLayout } from "#models";
import { openRecordedModel } from "../contracts/recorded-model.ts";

function specWith(windows: readonly (number | null)[]): DecoderSpec {
  const { model } = openRecordedModel("llama");
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  const [layer] = model.spec.layers;
  if (layer === undefined) throw new Error("The fixture has layers");
  return { ...model.spec, layers: windows.map((window) => ({ ...layer, window })) };
}

/** The layers and the window of each group. */
function groupsOf(windows: readonly (number | null)[], options?: KvLayoutOptions) {
  return kvLayout(specWith(windows), options).groups.map(({ layers, window }) => [
    window?.tokens ?? null,
    layers.length,
  ]);
}

const repeated = (count: number, windows: readonly (number | null)[]) =>
  Array.from({ length: count }, () => windows).flat();

test("layers of equal windows make one group", () => {
  expect(groupsOf([null, null, null])).toEqual([[null, 3]]);
  expect(groupsOf([16, 16])).toEqual([[16, 2]]);
  expect(kvLayout(specWith([null, null])).places).toEqual([
    { group: 0, layer: 0 },
    { group: 0, layer: 1 },
  ]);
});

test("Gemma-2's alternating layers make two groups, the one that sees everything first", () => {
  const { groups, layersPerBlock, places } = kvLayout(specWith(repeated(13, [4096, null])));
  expect(groups.map(({ window }) => window)).toEqual([null, { tokens: 4096, sinkTokens: 0 }]);
  expect(layersPerBlock).toBe(13);
  expect(groups.map(({ layers }) => layers.slice(0, 3))).toEqual([
    [1, 3, 5],
    [0, 2, 4],
  ]);
  expect(places.slice(0, 3)).toEqual([
    { group: 1, layer: 0 },
    { group: 0, layer: 0 },
    { group: 1, layer: 1 },
  ]);
});

test("a class of many layers makes several groups as large as the smallest class", () => {
  expect(groupsOf(repeated(4, [64, 64, null]))).toEqual([
    [null, 4],
    [64, 4],
    [64, 4],
  ]);
});

test("blocks leave at most a tenth of their room unused", () => {
  // Groups of 4 of 22 + 4 layers leave 2 of 28 places unused; groups of 4 of 9 + 4 leave 3 of 16,
  // and of 3 leave 2 of 15: groups of 2 leave one of 14.
  expect(groupsOf([...repeated(4, [null]), ...repeated(22, [8])]).length).toBe(7);
  expect(groupsOf([...repeated(4, [null]), ...repeated(9, [8])])).toEqual([
    [null, 2],
    [null, 2],
    [8, 2],
    [8, 2],
    [8, 2],
    [8, 2],
    [8, 1],
  ]);
  // One full layer beside thirty would need 31 groups.
  expect(groupsOf([null, ...repeated(30, [8])])).toEqual([[null, 31]]);
});

test("a window that no served sequence exceeds is none", () => {
  expect(groupsOf([16, null], { servedTokens: 16 })).toEqual([[null, 2]]);
  expect(groupsOf([16, null], { servedTokens: 17 })).toEqual([
    [null, 1],
    [16, 1],
  ]);
});

test("the settings' window and sinks bound every group", () => {
  const streaming = { window: 32, sinkTokens: 0 };
  expect(groupsOf([16, null], { streaming })).toEqual([
    [32, 1],
    [16, 1],
  ]);
  expect(groupsOf([64, null], { streaming })).toEqual([[32, 2]]);
  const sinks = kvLayout(specWith([null, null]), { streaming: { window: 32, sinkTokens: 4 } });
  expect(sinks.groups[0]?.window).toEqual({ tokens: 32, sinkTokens: 4 });
});

test("every layer has a place of its own", () => {
  for (const windows of [[null], [8, null, 8, 8, null, 8], repeated(6, [8, 8, null])]) {
    const { places, groups, layersPerBlock } = kvLayout(specWith(windows));
    expect(new Set(places.map(({ group, layer }) => `${group} ${layer}`)).size).toBe(
      windows.length,
    );
    for (const [index, { group, layer }] of places.entries()) {
      expect(groups[group]?.layers[layer]).toBe(index);
      expect(layer).toBeLessThan(layersPerBlock);
    }
  }
});

test("the plain layout keeps everything in one group", () => {
  const { groups } = plainLayout(specWith([8, null]));
  expect(groups).toEqual([{ layers: [0, 1], window: null }]);
});
