import { EngineError, messageOf } from "#base";
import type { WireError } from "./protocol.ts";

/** An error as plain data, for the other thread. */
export function toWire(thrown: unknown): WireError {
  if (thrown instanceof EngineError) {
    return { code: thrown.code, message: thrown.message, param: thrown.param };
  }
  return { code: null, message: messageOf(thrown), param: null };
}

/** A step's error as the failure of each request in it. A broken device keeps its own code. */
export function stepFailure(thrown: unknown): WireError {
  if (thrown instanceof EngineError && thrown.code === "DEVICE_FAILED") return toWire(thrown);
  const message =
    thrown instanceof EngineError ? thrown.message : `Cannot finish step: ${messageOf(thrown)}`;
  return { code: "ENGINE_STEP_FAILED", message, param: null };
}

/** The error of one request in a step. A bug is reported as a failed step. */
export function requestFailure(thrown: unknown): WireError {
  return thrown instanceof EngineError ? toWire(thrown) : stepFailure(thrown);
}

/** The error that ended the whole engine. */
export function engineDeath(reason: string, cause?: unknown): WireError {
  const detail = cause === undefined ? "" : `: ${messageOf(cause)}`;
  return { code: "ENGINE_DEAD", message: `Cannot continue: ${reason}${detail}`, param: null };
}

/** An error from the other thread. One without a code, a bug, becomes ENGINE_STEP_FAILED. */
export function fromWire(error: WireError): EngineError {
  const options = error.param === null ? {} : { param: error.param };
  return new EngineError(error.code ?? "ENGINE_STEP_FAILED", error.message, options);
}
