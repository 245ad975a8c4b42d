/**
 * node bench/sharing.mjs [--requests 600] [--seed 1] [--beam-steps 384] [--out FILE]
 *
 * Memory that sequences of one request save by sharing blocks, as figure 15 of the PagedAttention
 * paper has it: blocks saved / blocks without sharing, mean over the steps of a busy server. The
 * scheduler and the cache are the engine's; lengths are made up with the paper's means
 * (src/simulator/length-mix.ts); beams go on as those of models/pocket did on prompts of about the
 * same length. Prints JSON and writes it.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { LLM } from "../dist/index.js";
import { drawLengths, LENGTH_MIXES, withSpread } from "../dist/simulator/index.js";
import { readFlags } from "../tools/flags.mjs";
import { recordBeamChoices } from "./beam-choices.mjs";
import { describeMachine } from "./machine.mjs";
import { ScriptedServer } from "./scripted.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const { values: flags } = readFlags({
  options: {
    requests: { type: "number", default: 600, min: 1 },
    seed: { type: "number", default: 1 },
    "beam-steps": { type: "number", default: 384, min: 1 },
    out: { type: "string", published: `${root}bench/results/sharing.json` },
  },
});
const requests = flags.requests;
const seed = flags.seed;
const beamSteps = flags["beam-steps"];

const MODEL = `${root}models/pocket`;
const BLOCK_TOKENS = 16;
const WIDTHS = [2, 4, 6];
/** Requests at a time: what the paper's vLLM reached on ShareGPT (figure 13). */
const ACTIVE = 30;
/** Steps between two looks at the memory. */
const LOOK_STEPS = 8;
/** Recorded prompts of each mix; their searches are used over and over. */
const PROMPTS = 6;
/** A short answer needs no long recording. */
const RECORDED_SHARE = { shareGpt: 1, alpaca: 1 / 3 };
/** Percent. ShareGPT: the paper gives the range of all widths alone. */
const PAPER = {
  alpaca: { samples: [6.09, 8.53, 9.79], beams: [37.56, 53.13, 55.16] },
  shareGpt: { samples: "16.2 to 30.5", beams: "44.3 to 66.3" },
};
/** How the lengths spread is not in the paper: what if they did less, or more? */
const SPREADS = [0.75, 1, 1.25];

const percent = (share) => Math.round(share * 10_000) / 100;

/** Mean saving over the steps in which as many requests run as may. */
function meanSaving(lengths, { width, choicesOf }) {
  const server = new ScriptedServer({
    blockTokens: BLOCK_TOKENS,
    poolBlocks: Math.ceil((ACTIVE * width * 2048) / BLOCK_TOKENS),
    sequencesMax: ACTIVE * width,
    contextTokensMax: 2048,
  });
  let next = 0;
  let saved = 0;
  let looks = 0;
  for (let step = 0; next < lengths.length; step++) {
    while (server.activeRequests < ACTIVE && next < lengths.length) {
      server.add(lengths[next], width, choicesOf(next));
      next++;
    }
    // The first requests start together: only when half of all have come is it a mix of ages.
    const isSteady = next * 2 >= lengths.length;
    const memory = server.step({ look: isSteady && step % LOOK_STEPS === 0 });
    if (memory === null) continue;
    saved += 1 - memory.heldBlocks / memory.unsharedBlocks;
    looks++;
  }
  return percent(saved / looks);
}

/** Prompts of a mix's mean length, from texts that the model was not trained on. */
async function promptsOf(mixName) {
  const llm = await LLM.load(MODEL, { engineThread: false });
  const fixtures = `${root}test/fixtures/pocket/`;
  const texts = readFileSync(`${fixtures}heldout.txt`, "utf8").split(/^=====8<===== .*\n/gm);
  const wanted = Math.round(LENGTH_MIXES[mixName].prompt.meanTokens);
  const all = await Promise.all(texts.map((text) => llm.codec.encode(text)));
  await llm[Symbol.asyncDispose]();
  return all
    .filter(({ length }) => length >= wanted)
    .slice(0, PROMPTS)
    .map((ids) => ({ promptTokenIds: ids.slice(0, wanted) }));
}

async function measureMix(mixName) {
  const prompts = await promptsOf(mixName);
  const draw = (factor) =>
    drawLengths(withSpread(LENGTH_MIXES[mixName], factor), { seed, count: requests });
  const bySpread = (options) =>
    Object.fromEntries(
      SPREADS.map((factor) => [`spread${factor}`, meanSaving(draw(factor), options)]),
    );
  const rows = [];
  const paper = PAPER[mixName];
  for (const [place, width] of WIDTHS.entries()) {
    const samples = { width, choicesOf: () => null };
    rows.push({
      method: "samples",
      width,
      ...bySpread(samples),
      paper: pick(paper.samples, place),
    });
    const started = performance.now();
    const steps = Math.ceil(beamSteps * RECORDED_SHARE[mixName]);
    const recorded = await recordBeamChoices({ model: MODEL, prompts, width, steps });
    const recordSeconds = Math.round((performance.now() - started) / 100) / 10;
    const beams = { width, choicesOf: (index) => recorded[index % recorded.length] };
    rows.push({
      method: "beams",
      width,
      ...bySpread(beams),
      paper: pick(paper.beams, place),
      recordSeconds,
      tokensToCommonAncestor: tokensToCommonAncestor(recorded),
    });
  }
  return { mix: mixName, lengths: LENGTH_MIXES[mixName], rows };
}

const pick = (values, place) => (typeof values === "string" ? values : values[place]);

/** How many tokens ago all beams of a step were one: mean over steps. */
function tokensToCommonAncestor(recordings) {
  let sum = 0;
  let steps = 0;
  for (const choices of recordings) {
    for (let step = 1; step < choices.length; step++) {
      let beams = new Set(choices[step]);
      let back = 1;
      while (beams.size > 1 && back < step) {
        beams = new Set([...beams].map((beam) => choices[step - back][beam]));
        back++;
      }
      sum += back;
      steps++;
    }
  }
  return Math.round((sum / steps) * 10) / 10;
}

const mixes = [];
for (const name of ["alpaca", "shareGpt"]) mixes.push(await measureMix(name));
const result = {
  benchmark: "sharing",
  command: `node bench/sharing.mjs --requests ${requests} --seed ${seed} --beam-steps ${beamSteps}`,
  machine: describeMachine(),
  unit: "percent of the blocks that would be held without sharing",
  blockTokens: BLOCK_TOKENS,
  activeRequests: ACTIVE,
  mixes,
};
const text = `${JSON.stringify(result, null, 2)}\n`;
mkdirSync(dirname(flags.out), { recursive: true });
writeFileSync(flags.out, text);
process.stdout.write(text);
