import { EngineError } from "#base";

/** What is wrong with a model file, and where. */
export interface FileFault {
  readonly path: string;
  /** The field of the file, e.g. `tensors.lm_head.weight.data_offsets`. */
  readonly field: string;
  /** What the field must be, e.g. `must be at most 100`. */
  readonly must: string;
  /** What it is. */
  readonly actual: unknown;
  readonly cause?: unknown;
}

const SHOWN_CHARACTERS_MAX = 200;

/** CHECKPOINT_INVALID: the file contradicts itself or its format. */
export function invalidFile(fault: FileFault): EngineError {
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${fault.path}: ${fault.field} ${fault.must}, current value is ` +
      `${shown(fault.actual)}; download or convert the file again`,
    { param: fault.field, cause: fault.cause },
  );
}

/** A value as messages print it; a hostile file cannot flood the log. */
function shown(value: unknown): string {
  const text = typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
  return text.length > SHOWN_CHARACTERS_MAX ? `${text.slice(0, SHOWN_CHARACTERS_MAX)}…` : text;
}
