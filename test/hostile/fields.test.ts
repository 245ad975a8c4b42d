import { describe, expect, test } from "vitest";
import { FIELD_VALUES } from "./field-values.ts";
import { BODY_ROUTES, fieldPaths } from "./request-schemas.ts";

const pathsOf = BODY_ROUTES.map(({ path, schema }) => ({ path, fields: fieldPaths(schema) }));

describe.each(pathsOf)("$path", ({ fields }) => {
  test("every field has hostile values, so that a new field is not forgotten", () => {
    expect(fields.filter((field) => FIELD_VALUES[field] === undefined)).toEqual([]);
  });
});

test("values stand for fields that are there", () => {
  const known = new Set(pathsOf.flatMap(({ fields }) => fields));
  expect(Object.keys(FIELD_VALUES).filter((field) => !known.has(field))).toEqual([]);
});

test("every field has right values and at least ten hostile ones", () => {
  const poor = Object.entries(FIELD_VALUES).filter(
    ([, { right, hostile }]) => right.length === 0 || hostile.length < 10,
  );
  expect(poor.map(([field]) => field)).toEqual([]);
});

test("a field inside of another one says what stands around it", () => {
  const bare = Object.entries(FIELD_VALUES).filter(
    ([field, { around }]) => /[.[]/.test(field) !== (around?.includes("$") === true),
  );
  expect(bare.map(([field]) => field)).toEqual([]);
});
