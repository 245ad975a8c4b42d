/**
 * node bench/agent-session.mjs [--system-tokens 28000] [--turns 12] [--out FILE]
 *
 * A coding agent's session through POST /v1/messages of `perigee serve`, with its billing header
 * moved behind the conversation and left where it is: the share of each prompt that was cached, and
 * the time to the first token. The model is tiny, with random weights and a context of 64 Ki
 * tokens: what is computed counts, not what it says. Prints a table and, with --out, writes JSON.
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LLM } from "../dist/index.js";
import { startServer } from "../dist/server/index.js";
import { readFlags } from "../tools/flags.mjs";
import { playSession, writeLongModel } from "./agent-session-load.mjs";
import { describeMachine } from "./machine.mjs";

const CONTEXT_TOKENS = 65_536;
const { values: flags } = readFlags({
  options: {
    "system-tokens": { type: "number", default: 28_000, min: 100 },
    turns: { type: "number", default: 12, min: 2 },
    out: { type: "string", default: "" },
  },
});

async function measured(folder, moveKnownNoise) {
  const llm = await LLM.load(folder, {
    ...{ device: "cpu", dtype: "float32", randomWeights: true },
    scheduler: { stepTokensMax: 2048 },
  });
  try {
    const server = await startServer(llm, {
      ...{ port: 0, logLevel: "silent", servedModelName: ["tiny"], moveKnownNoise },
    });
    const session = { systemTokens: flags["system-tokens"], turns: flags.turns };
    const rows = await playSession({ url: server.url, model: "tiny", ...session });
    await server.close();
    return rows;
  } finally {
    await llm.close();
  }
}

const folder = mkdtempSync(join(tmpdir(), "perigee-agent-session-"));
try {
  writeLongModel(folder, CONTEXT_TOKENS);
  console.error("header moved behind the conversation …");
  const moved = await measured(folder, true);
  console.error("header left where it is …");
  const left = await measured(folder, false);
  console.log("turn  prompt tokens  cached: moved  left    TTFT ms: moved    left");
  moved.forEach((row, turn) => {
    const other = left[turn];
    const rate = (share) => `${(100 * share).toFixed(1)} %`.padStart(8);
    const ms = (time) => time.toFixed(0).padStart(8);
    console.log(
      `${String(turn + 1).padStart(4)}  ${String(row.promptTokens).padStart(13)}      ` +
        `${rate(row.hitRate)} ${rate(other.hitRate)}         ${ms(row.ttftMs)} ${ms(other.ttftMs)}`,
    );
  });
  if (flags.out !== "") {
    const command = `node bench/agent-session.mjs ${process.argv.slice(2).join(" ")}`.trim();
    const result = { command, machine: describeMachine(), contextTokens: CONTEXT_TOKENS };
    writeFileSync(flags.out, `${JSON.stringify({ ...result, moved, left }, null, 2)}\n`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
