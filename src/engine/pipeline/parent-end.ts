/**
 * A process that ends with the one that started it. A stage sees the end of its stream, if it
 * looks: one that was stopped, or is in a call of a driver that does not return, would stay, and
 * hold its device.
 */
import { constants } from "node:os";
import koffi from "koffi";

/** From sys/prctl.h. */
const PR_SET_PDEATHSIG = 1;

/**
 * From now on the system kills this process when the thread that started it ends, however that
 * ends; systems other than Linux do not. False: `parent`, which started it, has ended already.
 */
export function endWithParent(parent: number): boolean {
  if (process.platform === "linux") {
    const prctl = koffi
      .load(null)
      .func("int prctl(int option, uint64_t signal, uint64_t, uint64_t, uint64_t)");
    prctl(PR_SET_PDEATHSIG, constants.signals.SIGKILL, 0, 0, 0);
  }
  // Looked at last: it may have ended before the system was asked.
  return process.ppid === parent;
}
