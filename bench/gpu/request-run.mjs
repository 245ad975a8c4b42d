/**
 * Whole requests through the engine, watched: what the GPU's stream reached and when, what the host
 * did, and what the engine told.
 */
import { CudaEvent } from "../../dist/devices/cuda/driver/event.js";
import { CudaStream } from "../../dist/devices/cuda/driver/stream.js";
import { CommandBuilder } from "../../dist/engine/loop/command-builder.js";
import { Engine } from "../../dist/engine/loop/engine.js";
import { Decoder } from "../../dist/models/decoder.js";
import { Sampler } from "../../dist/sampling/sampler.js";
import { Scheduler } from "../../dist/scheduler/scheduler.js";
import { HostTrace, watchCollections } from "./host-trace.mjs";

/** Random token ids; none are special. */
export function randomPrompts(count, length, vocabularySize) {
  const draw = () => Math.floor(Math.random() * vocabularySize);
  return Array.from({ length: count }, () => ({ promptTokenIds: Array.from({ length }, draw) }));
}

/** Watches runs of an engine on this thread, whose steps go to the device that `deviceOf` gives. */
export class RequestWatch {
  #trace = new HostTrace();
  #deviceOf;
  #staged = [];

  /** Wraps the methods that a step goes through. */
  constructor(deviceOf) {
    this.#deviceOf = deviceOf;
    this.#watchHost();
    this.#markSteps();
  }

  /** Runs `work`; what was seen of it, as `summarizeRun` takes it. */
  async run(llm, work) {
    const stopReports = listen(llm, () => this.#trace.addSince("commit", "deliver"));
    const collections = watchCollections();
    const device = this.#deviceOf();
    this.#staged = [];
    this.#trace.start();
    const zeroMs = this.#clocks("zero");
    try {
      await work();
    } finally {
      stopReports();
    }
    const wallMs = performance.now() - zeroMs;
    const spans = this.#trace.stop();
    const endMs = this.#clocks("end");
    const marks = device.marks.stop();
    spans.push(...(await collections.stop()));
    const reports = stopReports();
    return { zeroMs, endMs, wallMs, marks, staged: this.#staged, spans, reports };
  }

  /** Marks a moment by both clocks: behind an idle stream a mark is made at once. */
  #clocks(label) {
    const device = this.#deviceOf();
    void device.synchronize();
    device.marks.start();
    device.marks.add(label);
    return performance.now();
  }

  /** Where one lies in the other, the inner one counts. */
  #watchHost() {
    const trace = this.#trace;
    trace.watch(Engine, ["add"], "add");
    trace.watch(Scheduler, ["plan", "begin"], "plan");
    trace.watch(CommandBuilder, ["build"], "build");
    trace.watch(Decoder, ["stage"], "stage");
    trace.watch(Decoder, ["forward"], "forward");
    trace.watch(Decoder, ["logits"], "head");
    trace.watch(Sampler, ["start"], "draw");
    trace.watch(CudaEvent, ["wait"], "wait");
    trace.watch(CudaStream, ["synchronize"], "wait");
    trace.watch(Scheduler, ["commit"], "commit");
  }

  /** Marks of every step, also of one that is not replayed, which the device does not mark. */
  #markSteps() {
    const watch = this;
    const { stage, forward } = Decoder.prototype;
    Decoder.prototype.stage = function staged(step, ...rest) {
      watch.#staged.push({ tokens: step.tokens, sequences: step.sequences });
      return stage.call(this, step, ...rest);
    };
    Decoder.prototype.forward = function marked(...given) {
      const marks = watch.#deviceOf()?.marks;
      marks?.add("begin");
      forward.apply(this, given);
      marks?.add("layers done");
    };
  }
}

/** As `RequestWatch.run`, of an engine on a thread of its own: what it tells, and no more. */
export async function runUnwatched(llm, work) {
  const stopReports = listen(llm, () => {});
  const zeroMs = performance.now();
  try {
    await work();
  } finally {
    stopReports();
  }
  const wallMs = performance.now() - zeroMs;
  return { zeroMs, wallMs, marks: null, reports: stopReports() };
}

/** Collects reports, with the time of each, until what this returns is called, which gives them. */
function listen(llm, onReport) {
  const reports = [];
  let computed = llm.stats().computedPromptTokens;
  const onStep = ({ stepTokens: tokens, sequences }, { computedPromptTokens }) => {
    onReport();
    const promptTokens = computedPromptTokens - computed;
    computed = computedPromptTokens;
    reports.push({ ms: performance.now(), tokens, sequences, promptTokens });
  };
  const stop = llm.listen({ onStep });
  return () => {
    stop();
    return reports;
  };
}
