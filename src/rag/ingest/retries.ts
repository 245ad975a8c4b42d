/** Calls that are made again where that may help. */
import { EngineError, type ErrorCode, type Timer } from "#base";

/** How often, and after which time. */
export interface RetryOptions {
  /** Calls altogether. */
  readonly attempts: number;
  /** Before the second call; doubled for each further one, up to 10 s. */
  readonly backoffMs: number;
  readonly timer: Timer;
  /** Ends waiting, with its reason. */
  readonly signal: AbortSignal;
}

const WAIT_MS_MAX = 10_000;

/** Failures that pass: of servers that restart, are busy or cannot be reached. */
const PASSING: readonly ErrorCode[] = [
  "STORE_UNAVAILABLE",
  "NETWORK",
  "OVERLOADED",
  "QUEUE_FULL",
  "NOT_READY",
  "WORKER_FAILED",
  "WORKER_TIMEOUT",
];

/** The call's result; its last error where none succeeded, at once where waiting cannot help. */
export async function retried<Result>(
  call: () => Promise<Result>,
  options: RetryOptions,
): Promise<Result> {
  for (let attempt = 1; ; attempt++) {
    options.signal.throwIfAborted();
    try {
      return await call();
    } catch (error) {
      const mayPass = error instanceof EngineError && PASSING.includes(error.code);
      if (!mayPass || attempt >= options.attempts) throw error;
      const ownMs = Math.min(WAIT_MS_MAX, options.backoffMs * 2 ** (attempt - 1));
      await waited(Math.max(ownMs, (error.retryAfterSeconds ?? 0) * 1000), options);
    }
  }
}

function waited(ms: number, { timer, signal }: RetryOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = () => {
      cancel();
      reject(signal.reason);
    };
    const cancel = timer.after(ms, () => {
      signal.removeEventListener("abort", stop);
      resolve();
    });
    signal.addEventListener("abort", stop, { once: true });
  });
}
