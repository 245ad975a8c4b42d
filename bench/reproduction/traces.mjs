/** The traces of the reproduction: recorded conversations, and the synthetic one from a seed. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { readTrace, syntheticTrace } from "../../dist/simulator/index.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const TRACE_BLOCK = 512;

export const TRACE_TEXT = {
  conversation: "Mooncake's conversation trace, raw timestamps",
  synthetic: "made up by the seed, with the statistics of Mooncake's synthetic trace",
};

/** Where the recorded trace is: `--trace`, PERIGEE_TRACES, or shared/traces beside the checkout. */
function conversationPath(flag) {
  const folder = process.env.PERIGEE_TRACES ?? join(root, "..", "shared", "traces");
  const path = flag ?? join(folder, "conversation_trace.jsonl");
  if (existsSync(path)) return path;
  console.error(`No trace at ${path}: set PERIGEE_TRACES or --trace`);
  process.exit(1);
}

/** Reads each trace when it is first asked for. */
export class Traces {
  #conversation = null;
  #path;

  constructor(path) {
    this.#path = path;
  }

  async get(name, seed) {
    if (name === "synthetic") return syntheticTrace({ seed });
    this.#conversation ??= await readTrace(conversationPath(this.#path), TRACE_BLOCK);
    return this.#conversation;
  }
}
