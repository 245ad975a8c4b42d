/** Ids that sort as their objects were made. */
import { randomBytes } from "node:crypto";

/** What begins the ids of each kind. */
export const ID_PREFIX = { file: "file-", store: "vs_", batch: "vsfb_" } as const;
export type IdKind = keyof typeof ID_PREFIX;

const SERIAL_DIGITS = 10;
const RANDOM_BYTES = 7;

/**
 * An id with its object's place in the order of creation in front, so that a cursor of a list means
 * a place even after its object was deleted: clients delete what they list.
 */
export function makeId(kind: IdKind, serial: number): string {
  const place = serial.toString(16).padStart(SERIAL_DIGITS, "0");
  return `${ID_PREFIX[kind]}${place}${randomBytes(RANDOM_BYTES).toString("hex")}`;
}

/** The place of an id in the order of creation; null: it is no id of the kind. */
export function serialOf(kind: IdKind, id: string): number | null {
  const prefix = ID_PREFIX[kind];
  const digits = id.slice(prefix.length);
  if (!id.startsWith(prefix) || !/^[0-9a-f]{24}$/.test(digits)) return null;
  return Number.parseInt(digits.slice(0, SERIAL_DIGITS), 16);
}
