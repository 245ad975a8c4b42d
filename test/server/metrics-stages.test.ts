import { expect, test } from "vitest";
import { closeToyServers, serveToy } from "../support/toy-server.ts";

closeToyServers();

const series = (text: string) => text.split("\n").filter((line) => /^\w+:pipeline_/.test(line));

test("[PP17] where the time of stages goes is counted by stage and part", async () => {
  const stages = [
    { steps: 7, computeMs: 5000, waitMs: 250, copyMs: 8 },
    { steps: 6, computeMs: 4000, waitMs: 0, copyMs: 16 },
  ];
  const { get } = await serveToy({ stages });
  const lines = series(await (await get("/metrics")).text()).map((line) =>
    line.replace('model_name="toy",engine="0",', ""),
  );
  for (const wanted of [
    'perigee:pipeline_stage_steps_total{stage="1"} 7',
    'perigee:pipeline_stage_steps_total{stage="2"} 6',
    'perigee:pipeline_stage_seconds_total{stage="1",part="compute"} 5',
    'perigee:pipeline_stage_seconds_total{stage="1",part="wait"} 0.25',
    'perigee:pipeline_stage_seconds_total{stage="2",part="copy"} 0.016',
  ]) {
    expect(lines).toContain(wanted);
  }
});

test("a model in one process has no series of stages", async () => {
  const { get } = await serveToy();
  expect(series(await (await get("/metrics")).text())).toEqual([]);
});
