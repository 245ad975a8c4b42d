// Pictures of docs/speculation.md: what drafts bring.
import { fixed, machineText, matching, only, results } from "./results.mjs";

const NO_DRAFTS = { name: "without drafts", value: 1 };

/** Tokens a step of each drafter, by kind of text. */
function acceptance() {
  const { subtitle, series, rows } = results("drafter-acceptance");
  return {
    ...{ kind: "bars", title: "Tokens a step, by kind of text", subtitle, series },
    limit: NO_DRAFTS,
    rows: rows.map(({ text, outputs, tokensPerStep }) => ({
      label: `${text} (${outputs})`,
      values: tokensPerStep,
      texts: tokensPerStep.map((value) => (value === null ? "" : fixed(value, 2))),
    })),
  };
}

const TEXTS = ["prose", "code", "chat", "json", "copy", "schema", "predicted"];
const NAMES = { json: "JSON", copy: "a list to copy", schema: "JSON by a schema" };
const nameOf = (text) => NAMES[text] ?? text;

/** Speed with `auto` over the same without drafts, by kind of text and streams. */
function speedUp(rows, streams, subtitle) {
  const ratio = (text, count) => rows[`${text} ${count}`]?.ratio ?? null;
  return {
    kind: "bars",
    title: "Speed with --speculative auto, as a multiple of none",
    subtitle,
    series: streams.map((count) => `${count} stream${count > 1 ? "s" : ""}`),
    limit: NO_DRAFTS,
    rows: TEXTS.map((text) => {
      const values = streams.map((count) => ratio(text, count));
      const texts = values.map((value) => (value === null ? "" : `${fixed(value, 2)} ×`));
      return { label: nameOf(text), values, texts };
    }).filter(({ values }) => values.some((value) => value !== null)),
  };
}

function onCpu() {
  const { runs } = results("speculation-cpu");
  const wanted = "--kind auto --streams 1,2,4,8,16 --rounds 7 --tokens 150";
  const { rows, machine } = only(runs, { arguments: wanted });
  return speedUp(rows, [1, 4, 16], `the bundled model, bfloat16, ${machineText(machine)}`);
}

function onGpu() {
  const { rows, device, date } = only(results("speculation").runs, { kind: "auto" });
  return speedUp(rows, [1, 8, 64], `the bundled model, bfloat16, one ${device}, ${date}`);
}

/** By streams, as the number of requests at once grows. */
function byStreams() {
  const { runs } = results("speculation-cpu");
  const streams = [1, 2, 4, 8, 16];
  const { rows, machine } = runs.find((run) =>
    run.arguments.includes("--rounds 5 --streams 1,2,4,8,16"),
  );
  return {
    kind: "lines",
    title: "The same with costs measured at load and products by AMX",
    subtitle: `the bundled model, bfloat16, ${machineText(machine)}, quiet`,
    x: { label: "streams", names: streams.map(String) },
    y: { label: "speed, as a multiple of none" },
    limits: [{ axis: "y", ...NO_DRAFTS }],
    series: ["prose", "code", "chat", "json"].map((text) => ({
      name: nameOf(text),
      points: streams.map((count, at) => [at, rows[`${text} ${count}`].ratio]),
    })),
  };
}

/** A step's milliseconds at a large model's shape, by streams and the draft's shape. */
function draftSteps() {
  const { rows, machine } = results("gpu-drafts");
  const batches = [...new Set(rows.map(({ batch }) => batch))];
  const shapes = ["1x3", "1x5", "2x4", "4x5", "8x5"];
  const found = (batch, shape) => {
    const [width, length] = shape.split("x").map(Number);
    return only(rows, { batch, width, length });
  };
  const x = { label: "streams", names: batches.map(String) };
  const lines = (value) =>
    shapes.map((shape) => ({
      name: shape.replace("x", " × "),
      points: batches.map((batch, at) => [at, value(found(batch, shape))]),
    }));
  const plain = batches.map((batch, at) => [at, matching(rows, { batch })[0].plainMs]);
  return [
    {
      kind: "lines",
      title: "Milliseconds of a step, by continuations × tokens of its drafts",
      subtitle: `Llama-3.1-8B's shape, bfloat16, one H100, ${machine.date}`,
      x,
      y: { label: "ms" },
      series: [...lines(({ ms }) => ms), { name: "none", points: plain }],
    },
    {
      kind: "lines",
      title: "Speed with the ReDrafter paper's tokens a step, which are not measured here",
      x,
      y: { label: "as a multiple of none" },
      limits: [{ axis: "y", ...NO_DRAFTS }],
      series: lines(({ speedUp: ratio }) => ratio),
    },
  ];
}

/** Trained drafters of a model between both sizes, by requests at once. */
function trained() {
  const { rows, machine, model } = results("drafter-table");
  const size = `${Math.round(model.parameters / 1e6)} million parameters`;
  const batches = [1, 4, 16, 64];
  const shown = [
    ["redrafter", 1, "ReDrafter, 1"],
    ["redrafter", 4, "ReDrafter, 4"],
    ["redrafter", "auto", "ReDrafter, auto"],
    ["medusa", 1, "Medusa, 1"],
    ["medusa", 4, "Medusa, 4"],
    ["medusa", "auto", "Medusa, auto"],
  ];
  return {
    kind: "lines",
    title: "Tokens a second of one request, as a multiple of none, by continuations",
    subtitle: `a model of ${size}, bfloat16, ${machineText(machine)}`,
    x: { label: "requests at once", names: batches.map(String) },
    y: { label: "as a multiple of none" },
    limits: [{ axis: "y", ...NO_DRAFTS }],
    series: shown.map(([kind, width, name]) => ({
      name,
      points: batches.map((batch, at) => [at, only(rows, { kind, width, batch }).speedUp]),
    })),
  };
}

export function speculationPictures() {
  return [
    ["speculation/acceptance.svg", [acceptance()]],
    ["speculation/speed-up-gpu.svg", [onGpu()]],
    ["speculation/speed-up.svg", [onCpu(), byStreams()]],
    ["speculation/draft-steps.svg", draftSteps()],
    ["speculation/trained.svg", [trained()]],
  ];
}
