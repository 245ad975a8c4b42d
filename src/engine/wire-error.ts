import { EngineError, messageOf } from "#base";
import type { WireError } from "./protocol.ts";

/** An error as plain data, for the other thread. */
export function toWire(thrown: unknown): WireError {
  if (thrown instanceof EngineError) {
    return { code: thrown.code, message: thrown.message, param: thrown.param };
  }
  return { code: null, message: messageOf(thrown), param: null };
}

/** The error that came from the other thread. Ours by mistake become ENGINE_STEP_FAILED. */
export function fromWire(error: WireError): EngineError {
  const options = error.param === null ? {} : { param: error.param };
  return new EngineError(error.code ?? "ENGINE_STEP_FAILED", error.message, options);
}
