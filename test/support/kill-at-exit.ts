import type { ChildProcess } from "node:child_process";

/** Those that run, of all tests of this process. */
const running = new Set<ChildProcess>();

function killAll(): void {
  for (const child of running) child.kill("SIGKILL");
}

/** A test that is interrupted leaves no process behind. One listener for all of them. */
export function killAtExit(child: ChildProcess): void {
  if (running.size === 0) process.on("exit", killAll);
  running.add(child);
  child.once("exit", () => {
    running.delete(child);
    if (running.size === 0) process.off("exit", killAll);
  });
}
