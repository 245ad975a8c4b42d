import { EngineError, shortText, valueText } from "#base";

/** An error in a model file, and its place. */
export interface FileFault {
  readonly path: string;
  /** The field of the file, e.g. `tensors.lm_head.weight.data_offsets`. */
  readonly field: string;
  /** What the field must be, e.g. `must be at most 100`. */
  readonly must: string;
  /** The field's actual value. */
  readonly actual: unknown;
  readonly cause?: unknown;
}

/** A hostile file cannot flood the log: names come from the file, too. */
const SHOWN_CHARACTERS_MAX = 200;

/** CHECKPOINT_INVALID: the file contradicts itself or its format. */
export function invalidFile(fault: FileFault): EngineError {
  const field = shortText(fault.field, SHOWN_CHARACTERS_MAX);
  const must = shortText(fault.must, SHOWN_CHARACTERS_MAX);
  return new EngineError(
    "CHECKPOINT_INVALID",
    `Cannot load ${fault.path}: ${field} ${must}, current value is ` +
      `${valueText(fault.actual, SHOWN_CHARACTERS_MAX)}; download or convert the file again`,
    { param: field, cause: fault.cause },
  );
}
