/** How beams of a real model go on: which beam each one continues, step after step. */
import { LLM } from "../dist/index.js";
import { Scheduler } from "../dist/scheduler/index.js";

/**
 * Searches on each prompt with `width` beams for `steps` tokens, end tokens passed over. Returns
 * for each prompt [steps - 1][width] the place of the beam that each next one continues, as the
 * engine's own search decided.
 */
export async function recordBeamChoices({ model, prompts, width, steps }) {
  const recordings = new Map();
  const restore = listen(recordings);
  const llm = await LLM.load(model, {
    engineThread: false,
    kvCache: { eventBufferMax: 0 },
    scheduler: { runningSequencesMax: prompts.length * width },
  });
  try {
    await llm.generate(prompts, {
      beamWidth: width,
      n: width,
      maxTokens: steps,
      minTokens: steps,
      ignoreEos: true,
      earlyStopping: "never",
    });
    // Requests are numbered as they come; the groups' order is the prompts'.
    return [...recordings.values()].map(({ choices }) => choices);
  } finally {
    restore();
    await llm[Symbol.asyncDispose]();
  }
}

/** Hears of every decision on its way from the search to the scheduler. */
function listen(recordings) {
  const original = Scheduler.prototype.continueBeams;
  Scheduler.prototype.continueBeams = function (group, next, nowMs) {
    const recording = recordings.get(group) ?? { beams: [group.lead], choices: [] };
    recordings.set(group, recording);
    recording.choices.push(next.map(({ parent }) => recording.beams.indexOf(parent)));
    recording.beams = original.call(this, group, next, nowMs);
    return recording.beams;
  };
  return () => {
    Scheduler.prototype.continueBeams = original;
  };
}
