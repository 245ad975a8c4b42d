/** Metrics of the stages that a model's layers are spread over: none where it is in one process. */
import type { StageTimes } from "#engine";
import type { Metric } from "./metric.ts";

const MS_PER_SECOND = 1000;

/** Label values of where a stage's time goes. */
const PARTS: readonly (readonly [Exclude<keyof StageTimes, "steps">, string])[] = [
  ["computeMs", "compute"],
  ["waitMs", "wait"],
  ["copyMs", "copy"],
];

export function stageCounters(): readonly Metric[] {
  return [
    {
      name: "pipeline_stage_steps_total",
      help: "Steps of each pipeline stage, the first one being 1.",
      labelNames: ["stage"],
      samples: ({ stages }) =>
        stages.map(({ steps }, index) => ({ labels: { stage: nameOf(index) }, value: steps })),
    },
    {
      name: "pipeline_stage_seconds_total",
      help:
        "Where the time of a pipeline stage's steps went: computing, waiting with nothing to " +
        "compute, and copying hidden states, which is mostly beside computing.",
      labelNames: ["stage", "part"],
      samples: ({ stages }) =>
        stages.flatMap((times, index) =>
          PARTS.map(([field, part]) => ({
            labels: { stage: nameOf(index), part },
            value: times[field] / MS_PER_SECOND,
          })),
        ),
    },
  ];
}

function nameOf(index: number): string {
  return String(index + 1);
}
