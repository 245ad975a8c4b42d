/** Numbers of a step's rows. */
import { assert } from "#base";

/** Whether they are the same rows in the same order. */
export function areEqual(one: Int32Array, other: Int32Array): boolean {
  return one.length === other.length && one.every((row, place) => row === other[place]);
}

/** Whether they are 0, 1, 2 and so on. */
export function isCount(rows: Int32Array): boolean {
  return rows.every((row, place) => row === place);
}

/** The index of each row among the wanted rows. */
export function placesOf(rows: Int32Array, wanted: Int32Array): Int32Array {
  const places = new Map(Array.from(wanted, (row, place) => [row, place]));
  return rows.map((row) => {
    const place = places.get(row);
    assert(
      place !== undefined,
      `Cannot read row ${row}: it was not requested when the step was staged`,
    );
    return place;
  });
}
