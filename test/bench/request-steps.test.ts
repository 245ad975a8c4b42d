import { expect, test } from "vitest";
import { piecesOf } from "../../bench/gpu/host-trace.mjs";
import { summarizeRun } from "../../bench/gpu/request-steps.mjs";

/** Three steps, by a GPU whose clock is half as fast as the host's, which calls its zero 1000. */
function watched() {
  const marks = [
    { label: "zero", ms: 0 },
    ...step(1, 5, 6),
    ...step(7, 8, 9),
    ...step(9.5, 10.5, 11),
    { label: "end", ms: 20 },
  ];
  const reports = [
    { ms: 1013, tokens: 8, sequences: 2, promptTokens: 8 },
    { ms: 1019, tokens: 5, sequences: 2, promptTokens: 4 },
    { ms: 1023, tokens: 2, sequences: 2, promptTokens: 0 },
  ];
  const spans = [
    { phase: "wait", start: 1012.5, end: 1013 },
    { phase: "forward", start: 1012, end: 1015 },
  ];
  const staged = reports.map(({ tokens, sequences }) => ({ tokens, sequences }));
  return { zeroMs: 1000, endMs: 1040, wallMs: 25, marks, staged, spans, reports };
}

function step(begin: number, layersDone: number, read: number) {
  return [
    { label: "begin", ms: begin },
    { label: "step", ms: begin },
    { label: "layers done", ms: layersDone },
    { label: "read", ms: read },
  ];
}

test("a step lasts from its first kernel to its sample, by the host's clock", () => {
  const { gpu } = summarizeRun(watched());
  expect(gpu?.steps).toMatchObject([
    { number: 1, kind: "prompts only", gpuMs: 10, headAndDrawMs: 2, gapMs: 2 },
    { number: 2, kind: "mixed", gpuMs: 4, headAndDrawMs: 2, gapMs: 1 },
    { number: 3, kind: "decoding only", gpuMs: 3, headAndDrawMs: 1, gapMs: null },
  ]);
  expect(gpu).toMatchObject({ before: { ms: 2 }, after: { ms: 3 }, mismatch: null });
  expect(gpu?.share).toBeCloseTo(17 / 25);
});

test("the host's time in a gap is the innermost phase's, and other where there is none", () => {
  const { gpu } = summarizeRun(watched());
  expect(gpu?.gaps).toMatchObject([{ number: 1 }, { number: 2 }]);
  expect(gpu?.gaps[0]?.gapPhases).toEqual({ forward: 1.5, wait: 0.5, other: 0 });
  expect(gpu?.gaps[1]?.gapPhases).toEqual({ other: 1 });
});

test("steps that were not told as they were staged are said to be", () => {
  const { reports, ...rest } = watched();
  const { gpu: fewer } = summarizeRun({ ...rest, reports: reports.slice(1) });
  expect(fewer?.mismatch).toBe("3 steps of the GPU, 3 staged, 2 told");
  expect(fewer?.steps.at(-1)).toMatchObject({ kind: "unknown" });
  const { gpu: other } = summarizeRun({ ...rest, reports: reports.toReversed() });
  expect(other?.mismatch).toBe("step 1 was staged with 8 tokens, told with 2");
});

test("reports alone say what came between them", () => {
  const summary = summarizeRun({ ...watched(), marks: null });
  expect(summary.reports).toMatchObject({ firstMs: 13, afterLastMs: 2 });
  const told = ["prompts only", "mixed", "decoding only"];
  expect(summary.reports.kinds).toMatchObject(told.map((kind) => ({ kind, steps: 1 })));
  expect(summary.gpu).toBeNull();
});

test("pieces of nested spans add up to what the outer one took", () => {
  const outer = { phase: "outer", start: 1, end: 5 };
  const inner = { phase: "inner", start: 2, end: 3 };
  expect(piecesOf([inner, outer])).toEqual([
    { phase: "outer", start: 1, end: 2 },
    { phase: "inner", start: 2, end: 3 },
    { phase: "outer", start: 3, end: 5 },
  ]);
});
