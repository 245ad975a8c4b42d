/** The thread behind `encode-worker.ts`: encodes what it is sent, in order. */
import { parentPort, workerData } from "node:worker_threads";
import { assert } from "#base";
import type { EncodeAnswer, EncodeJob } from "./encode-worker.ts";
import { Tokenizer } from "./tokenizer.ts";

const port = parentPort;
assert(port !== null, "Cannot run the tokenizer's thread: it must be started as a worker");
const tokenizer = new Tokenizer(workerData);

port.on("message", ({ id, text, addSpecialTokens }: EncodeJob) => {
  const ids = Int32Array.from(tokenizer.encodeNow(text, { addSpecialTokens }));
  const answer: EncodeAnswer = { id, ids };
  port.postMessage(answer, [ids.buffer]);
});
