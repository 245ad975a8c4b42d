/** Parts of a decoder, run one after the other, compute what all of it computes. */
import { describe, expect, test } from "vitest";
import { type Device, openDevice } from "#devices";
import { kvLayout, type LayerRange, layerRanges, partLayout, partOf } from "#models";
import { type Chunk, DecoderDriver, type StepMore } from "../contracts/decoder-driver.ts";
import { decoderFixtures, openRecordedModel } from "../contracts/recorded-model.ts";

/** A prompt in chunks beside another one, then steps that decode. */
const steps: readonly { readonly chunks: readonly Chunk[]; readonly more?: StepMore }[] = [
  { chunks: [{ sequence: 0, tokens: [1, 2, 3, 4, 5, 6, 7, 8, 9] }] },
  {
    chunks: [
      { sequence: 0, tokens: [11, 12, 13, 14, 15, 16, 17] },
      { sequence: 1, tokens: [9, 8, 7] },
    ],
    more: { wantedRows: Int32Array.of(6, 9) },
  },
  {
    chunks: [
      { sequence: 1, tokens: [21] },
      { sequence: 0, tokens: [22] },
    ],
    more: { samplesAll: true },
  },
];

function decoderOf(fixture: string) {
  const { model, sources } = openRecordedModel(fixture);
  if (model.kind !== "decoder") throw new Error("A decoder is wanted");
  return { model, sources };
}

/** The keys and values of a pool's blocks, as each layer has them. */
async function layersOf(device: Device, driver: DecoderDriver): Promise<Buffer[]> {
  const { cache } = driver;
  const host = device.allocateHostBlocks(cache, cache.blocks);
  const pairs = Int32Array.from({ length: 2 * cache.blocks }, (_, index) => index >> 1);
  device.offloadBlocks(cache, host, pairs);
  await device.synchronize();
  const bytes = cache.bytesPerBlock / cache.layers;
  return Array.from({ length: cache.layers }, (_, layer) =>
    Buffer.concat(
      Array.from({ length: cache.blocks }, (_, block) =>
        device.hostBlock(host, block).slice(layer * bytes, (layer + 1) * bytes),
      ),
    ),
  );
}

describe.each(["reference", "cpu"] as const)("on %s", (kind) => {
  test.for(decoderFixtures)(
    "[PP1] two parts have the logits, keys and values of one decoder, bit for bit: %s",
    async (fixture) => {
      const { model, sources } = decoderOf(fixture);
      const device = await openDevice({ kind, threads: 2 });
      const grouped = fixture === "gemma2";
      const whole = new DecoderDriver({ device, model, sources, grouped });
      const ranges = layerRanges(model.spec.layers.length, 2) ?? [];
      const drivers = ranges.map(
        (range) => new DecoderDriver({ device, model, sources, range, grouped }),
      );
      for (const { chunks, more = {} } of steps) {
        whole.step(chunks, more);
        let hidden: Float32Array | undefined;
        for (const driver of drivers) {
          driver.step(chunks, { ...more, ...(hidden !== undefined && { hidden }) });
          if (driver !== drivers.at(-1)) hidden = await device.readF32(driver.decoder.output());
        }
        const last = chunks.reduce((sum, { tokens }) => sum + tokens.length, 0) - 1;
        const rows = [...(more.wantedRows ?? [last])];
        expect(await drivers.at(-1)?.logits(rows)).toEqual(await whole.logits(rows));
        expect(await drivers.at(-1)?.hidden(rows)).toEqual(await whole.hidden(rows));
      }
      if (!grouped) {
        const parts = await Promise.all(drivers.map((driver) => layersOf(device, driver)));
        const wanted = await layersOf(device, whole);
        expect(parts.flat().map((layer, at) => layer.equals(wanted[at] ?? layer.fill(0)))).toEqual(
          wanted.map((layer) => layer.some((byte) => byte !== 0)),
        );
      }
      device.dispose();
    },
  );
});

test("[PP2] parts have all layers in order, their numbers differ by one at most", () => {
  for (let layers = 1; layers < 40; layers++) {
    for (let parts = 1; parts <= layers; parts++) {
      const ranges = layerRanges(layers, parts) ?? [];
      const counts = ranges.map(({ first, end }) => end - first);
      expect(ranges.map(({ first }) => first)).toEqual([
        0,
        ...ranges.slice(0, -1).map(({ end }) => end),
      ]);
      expect(ranges.at(-1)?.end).toBe(layers);
      expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
      expect(Math.min(...counts)).toBe(counts.at(-1));
    }
    expect(layerRanges(layers, layers + 1)).toBeNull();
  }
});

test("[PP2] a part loads the weights of its layers, and of the ends that it has", () => {
  const { model } = decoderOf("llama");
  const end = model.spec.layers.length;
  const first = partOf(model, { first: 0, end: 1 });
  const last = partOf(model, { first: 1, end });
  expect(first.spec).toMatchObject({ part: { begins: true, ends: false } });
  expect(last.spec).toMatchObject({ part: { begins: false, ends: true } });
  expect(last.names.layer(0)).toEqual(model.names.layer(1));
});

test("[PP2] a part keeps keys and values in the groups of the whole decoder", () => {
  const { model } = decoderOf("gemma2");
  const layout = kvLayout(model.spec);
  const range: LayerRange = { first: 1, end: model.spec.layers.length };
  const { groups, places } = partLayout(layout, range);
  expect(groups.map(({ window }) => window)).toEqual(layout.groups.map(({ window }) => window));
  expect(places.map(({ group }) => group)).toEqual(
    layout.places.slice(1).map(({ group }) => group),
  );
  for (const [layer, { group, layer: place }] of places.entries()) {
    expect(groups[group]?.layers[place]).toBe(layer);
  }
});
