import { spawnSync } from "node:child_process";

/** Stages that a process started itself: none where it has ended. */
export function stagesOf(pid: number): number[] {
  const { stdout } = spawnSync("ps", ["--ppid", String(pid), "-o", "pid=,args="]);
  const stages = stdout.toString().split("\n");
  return stages
    .filter((row) => row.includes("stage-process.js"))
    .map((row) => Number.parseInt(row, 10));
}

/** All stages behind a process, in their order: each starts the next one. */
export function allStagesOf(pid: number): number[] {
  return stagesOf(pid).flatMap((stage) => [stage, ...allStagesOf(stage)]);
}
