/** Values of a caller as JSON, whose writing would stop the thread if it were not bounded. */

/** Longest texts of one budget, in UTF-16 units. */
export const JSON_UNITS_MAX = 1_000_000;
/** Most values of one budget: 100,000 take about 30 ms. */
export const JSON_VALUES_MAX = 100_000;

/** How much may be written as JSON, of one value or of several. */
export class JsonBudget {
  #units = JSON_UNITS_MAX;
  #values = JSON_VALUES_MAX;

  /**
   * The value as JSON; null: it has more values or longer texts than are left. Throws what its own
   * getters and `toJSON` throw, and a TypeError for a bigint, and for what contains itself.
   */
  write(value: unknown): string | null {
    if (isLongView(value)) return null;
    const most = this.#units;
    const take = (key: string, inner: unknown): unknown => {
      this.#values -= 1;
      this.#units -= key.length + (typeof inner === "string" ? inner.length : 0);
      if (this.#values < 0 || this.#units < 0 || hidesMuch(inner)) throw TOO_MUCH;
      return inner;
    };
    try {
      const text = JSON.stringify(value, take) ?? "null";
      this.#units = most - text.length;
      return this.#units < 0 ? null : text;
    } catch (thrown) {
      if (thrown === TOO_MUCH) return null;
      throw thrown;
    }
  }
}

const TOO_MUCH = new Error("More values than are written as JSON");

/** Bytes would be listed before the first of them is counted. */
function hidesMuch(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.length > JSON_VALUES_MAX || value.some(isLongView);
  return Object.values(value).some(isLongView);
}

function isLongView(value: unknown): boolean {
  return ArrayBuffer.isView(value) && value.byteLength > JSON_VALUES_MAX;
}
