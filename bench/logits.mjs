/** Logits of every position of a text, through the decoder itself: the API has no whole rows. */
import { openCheckpoint } from "../dist/checkpoint/index.js";
import { openDevice } from "../dist/devices/index.js";
import { Decoder, describeModel, kvLayout, loadDecoderWeights } from "../dist/models/index.js";

/**
 * Calls `use(logits, position)` for each position of each text; logits are valid during the call.
 * @param {{ file: string, format: "f32"|"bf16"|"i8"|"q8", isa?: string|null, texts: number[][] }}
 *   of `isa`: null takes the processor's best
 */
export async function eachLogits({ file, format, isa, texts }, use) {
  const device = await openDevice({ kind: "cpu", ...(isa ? { isa } : {}) });
  const checkpoint = await openCheckpoint(file);
  const model = describeModel(checkpoint.config);
  const { spec } = model;
  const weights = loadDecoderWeights(device, model, { sources: checkpoint.tensors, format });
  const tokens = Math.max(...texts.map((text) => text.length));
  const blockTokens = 16;
  const blocks = Math.ceil(tokens / blockTokens);
  const layout = kvLayout(spec, { streaming: null });
  const decoder = new Decoder({
    device,
    spec,
    weights,
    limits: {
      stepTokensMax: tokens,
      sequencesMax: 1,
      logitRowsMax: 32,
      blocksPerSequenceMax: blocks,
      contextTokensMax: tokens,
      treeTokensMax: 0,
    },
    streaming: null,
    layout,
  });
  const cache = device.allocateKvPool({
    format: "f32",
    layers: layout.layersPerBlock,
    blocks: blocks * layout.groups.length,
    blockTokens,
    kvHeads: spec.kvHeads,
    headDim: spec.headDim,
  });
  for (const [index, text] of texts.entries()) {
    decoder.stage(stepOf(text, { blocks, groups: layout.groups.length }));
    decoder.forward(cache);
    for (let first = 0; first < text.length; first += 32) {
      const rows = Array.from({ length: Math.min(32, text.length - first) }, (_, i) => first + i);
      const logits = await device.readF32(decoder.logits(Int32Array.from(rows)));
      for (const [i, row] of rows.entries()) {
        const size = spec.vocabularySize;
        await use(logits.subarray(i * size, (i + 1) * size), row, index);
      }
    }
  }
  checkpoint.close();
  device.dispose();
}

/** One sequence that begins with this step. */
function stepOf(text, { blocks, groups }) {
  const positions = Int32Array.from(text, (_, i) => i);
  return {
    tokens: text.length,
    sequences: 1,
    tokenIds: Int32Array.from(text),
    positions,
    queryStarts: Int32Array.of(0, text.length),
    contextLengths: Int32Array.of(text.length),
    tables: Array.from({ length: groups }, (_, group) => ({
      slots: positions.map((position) => group * blocks * 16 + position),
      blockTables: Int32Array.from({ length: blocks }, (_, i) => group * blocks + i),
    })),
    queryLengthMax: text.length,
    contextLengthMax: text.length,
  };
}
