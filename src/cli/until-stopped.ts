/** Signals that end a server. */
import { constants } from "node:os";
import type { Announce } from "./start-lines.ts";

/** The exit code after a signal is this plus the signal's number, as in every shell. */
const SIGNALLED = 128;

/** Interval of the check whether npm, which started the server, still runs. */
const PARENT_CHECK_MS = 500;

/** The parent process. Read at once: it may already be gone when the model is loaded. */
const PARENT = process.ppid;

/** The first signal drains running requests; the second exits at once, with the signal's code. */
export async function untilStopped(close: () => Promise<void>, say: Announce): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    let stopping = false;
    const stop = (signal: NodeJS.Signals) => {
      if (stopping) process.exit(SIGNALLED + constants.signals[signal]);
      stopping = true;
      say(`${signal}: finishing the running requests`);
      close().then(resolve, reject);
    };
    process.on("SIGTERM", stop);
    process.on("SIGINT", stop);
    onParentGone(() => stop("SIGTERM"));
  });
}

/**
 * Under `npm start` a shell between npm and this process does not forward npm's signals: only the
 * end of the parent process can be detected.
 */
function onParentGone(stop: () => void): void {
  if (process.env.npm_lifecycle_event === undefined) return;
  const timer = setInterval(() => {
    if (process.ppid === PARENT) return;
    clearInterval(timer);
    stop();
  }, PARENT_CHECK_MS);
  timer.unref();
}
