import { existsSync, readFileSync } from "node:fs";

/** Whether a process runs. A zombie, which answers signals until its parent looks, does not. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    const status = `/proc/${pid}/status`;
    return !existsSync(status) || !/^State:\s+Z/m.test(readFileSync(status, "utf8"));
  } catch {
    return false;
  }
}
