/** A command with a limit, in a process group of its own, which ends with it. */
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";

/** Seconds until a process that was killed is given up: one may hang in the driver. */
const graceSeconds = 10;

/** Groups that are at work. */
const atWork = new Set();

/** Ends what is at work: groups of their own do not get the signals that this process gets. */
export function killAll() {
  for (const pid of atWork) killGroup(pid);
}

/**
 * Runs a command, its output to `file`: `{ state, rc, seconds }`, where `state` is "ended",
 * "killed" at the limit, or why it did not begin. A file, and no pipe: whoever is left with a
 * pipe's other end would keep it open.
 */
export async function runLimited([program, ...words], { cwd, file, limitSeconds }) {
  const begun = performance.now();
  const output = openSync(file, "w");
  const child = spawn(program, words, {
    ...{ cwd, detached: true },
    stdio: ["ignore", output, output],
  });
  closeSync(output);
  if (child.pid !== undefined) atWork.add(child.pid);
  const end = await endOf(child, limitSeconds);
  // What the command left behind, a server say, goes with it.
  if (child.pid !== undefined) {
    killGroup(child.pid);
    atWork.delete(child.pid);
  }
  return { ...end, seconds: (performance.now() - begun) / 1000 };
}

/** How a child ended; after its limit it is killed. */
function endOf(child, limitSeconds) {
  return new Promise((resolve) => {
    let state = "ended";
    const timers = [setTimeout(kill, limitSeconds * 1000)];
    function settle(end) {
      for (const timer of timers) clearTimeout(timer);
      resolve(end);
    }
    function kill() {
      state = "killed";
      killGroup(child.pid);
      timers.push(setTimeout(() => settle({ state, rc: null }), graceSeconds * 1000));
    }
    child.on("error", (error) => settle({ state: error.message, rc: null }));
    child.on("exit", (code, signal) => settle({ state, rc: code ?? signal }));
  });
}

function killGroup(pid) {
  try {
    process.kill(-pid, "SIGKILL");
  } catch (error) {
    // ESRCH, the usual case: nobody is left.
    if (error.code !== "ESRCH") console.error(`Cannot end process group ${pid}: ${error.message}`);
  }
}
