/**
 * node bench/peer/logits.mjs FILE.gguf TEXTS.json PREFIX: llama.cpp's logits at every position of
 * texts of token ids, as float32 files PREFIX<text>-<position>.
 */
import { readFileSync, writeFileSync } from "node:fs";
import { getLlama } from "node-llama-cpp";

const [, , modelPath, textsFile, prefix] = process.argv;
const texts = JSON.parse(readFileSync(textsFile, "utf8"));
const llama = await getLlama({ build: "never", gpu: false, logLevel: "error" });
const model = await llama.loadModel({ modelPath, gpuLayers: 0 });
const contextSize = Math.max(...texts.map((text) => text.length)) + 16;
const context = await model.createContext({ contextSize, batchSize: 512, sequences: 1 });
const sequence = context.getSequence();
for (const [index, text] of texts.entries()) {
  await sequence.clearHistory();
  // One after another: the logits of a whole text at once would be maps of all tokens.
  for (const [row, token] of text.entries()) {
    const input = [[token, { generateNext: { logits: true } }]];
    const [output] = await sequence.controlledEvaluate(input);
    const logits = output.next.logits;
    const values = new Float32Array(logits.size);
    for (const [id, value] of logits) values[id] = value;
    writeFileSync(`${prefix}${index}-${row}`, Buffer.from(values.buffer));
  }
}
await model.dispose();
await llama.dispose();
