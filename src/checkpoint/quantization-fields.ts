import { EngineError, shortText, valueText } from "#base";
import { invalidFile } from "./invalid-file.ts";

const SHOWN_CHARACTERS_MAX = 100;

/** Fields of `quantization_config`, or of an object in it, and errors that name them. */
export class QuantizationFields {
  readonly #path: string;
  readonly #name: string;
  readonly #fields: ReadonlyMap<string, unknown>;

  /** Throws CHECKPOINT_INVALID unless `value` is an object. */
  constructor(path: string, value: unknown, name = "quantization_config") {
    this.#path = path;
    this.#name = name;
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw invalidFile({ path, field: name, must: "must be an object", actual: value });
    }
    // A map: a name such as `constructor` must not find what objects inherit.
    this.#fields = new Map(Object.entries(value));
  }

  /** A field's value. Undefined: absent, or null, which means the same. */
  of(field: string): unknown {
    return this.#fields.get(field) ?? undefined;
  }

  /** The first of these fields that is present; all absent: the first one's name. */
  first(...names: [string, ...string[]]): { readonly name: string; readonly value: unknown } {
    const name = names.find((candidate) => this.of(candidate) !== undefined) ?? names[0];
    return { name, value: this.of(name) };
  }

  /** An object among the fields, with fields of its own. */
  inner(field: string): QuantizationFields {
    return new QuantizationFields(this.#path, this.of(field), `${this.#name}.${field}`);
  }

  /** Names of the fields. */
  get names(): readonly string[] {
    return [...this.#fields.keys()];
  }

  /** Columns that share a scale. Null: -1, all of a row. Throws CHECKPOINT_INVALID. */
  groupColumns(field: string): number | null {
    const value = this.of(field);
    if (value === -1) return null;
    if (typeof value === "number" && Number.isSafeInteger(value) && value > 0) return value;
    throw this.invalid(field, "must be -1 or a whole number above 0");
  }

  /** CHECKPOINT_INVALID: the field's value makes no sense. */
  invalid(field: string, must: string): EngineError {
    const actual = this.of(field) ?? "absent";
    return invalidFile({ path: this.#path, field: `${this.#name}.${field}`, must, actual });
  }

  /** UNSUPPORTED_MODEL: the field means a way of quantising that is not read. */
  refused(field: string, must: string, shown?: unknown): EngineError {
    const actual = shown ?? this.of(field) ?? "absent";
    const name = shortText(`${this.#name}.${field}`, SHOWN_CHARACTERS_MAX);
    return new EngineError(
      "UNSUPPORTED_MODEL",
      `Cannot load ${this.#path}: ${name} ${must}, current value is ` +
        `${valueText(actual, SHOWN_CHARACTERS_MAX)}; use the unquantised checkpoint ` +
        '(quantization: "int8", --quantization int8, quantises it at load) or a GGUF',
      { param: "quantization_config" },
    );
  }
}
