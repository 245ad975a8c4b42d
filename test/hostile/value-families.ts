/** Values made to hurt, by the type that a field wants; and right ones beside them. */
import { type JsonText, longText, nested, objectText, repeated } from "./json-text.ts";

/** A value as it is written; the large ones are made when they are wanted. */
export type Value = JsonText | (() => JsonText);

/** What a field may be given. */
export interface Family {
  /** Values of right requests. */
  readonly right: readonly Value[];
  /** Values that may be refused or answered, and must harm no other request. */
  readonly hostile: readonly Value[];
}

/** Of no field's type, or of a type's edge. Every field is given them. */
const wrongTypes: readonly Value[] = [
  ...["null", "true", "[]", "{}", '"x"', "[null]", '[""]', "[[]]", "[{}]", "1", '""'],
  ...['{"__proto__":{"polluted":1}}', '{"constructor":{"prototype":{"polluted":1}}}'],
  ...['{"toString":1,"valueOf":null}', '[1,"a",null,{}]', '{"":""}', '{"a":1,"a":2}'],
  () => nested(63),
  () => nested(65),
  () => nested(20_000),
  () => `${'{"a":'.repeat(63)}1${"}".repeat(63)}`,
  () => repeated("[]", 100_000),
  () => repeated("null", 300_000),
  () => `{${Array.from({ length: 30_000 }, (_, at) => `"k${at}":0`).join(",")}}`,
];

/** At and beyond what numbers of 32 and 64 bits hold. */
const extremes: readonly Value[] = [
  ...["0", "-0", "-1", "1", "-2147483648", "2147483647", "2147483648", "4294967295", "4294967296"],
  ...["4294967297", "9007199254740991", "9007199254740992", "9007199254740993", "1e308", "1e309"],
  ...["-1e309", "18446744073709551617", "0.5", "-0.5", "1.0000000000000002", "5e-324", "1e-400"],
  ...['"NaN"', '"1"', '"Infinity"', "1E400", `1${"0".repeat(400)}`, `0.${"0".repeat(400)}1`],
];

const bel = "\\u0007";
/** Texts whose characters have a meaning elsewhere: headers, logs, paths, terminals, templates. */
const strangeTexts: readonly Value[] = [
  ...['" "', '"\\u0000"', '"a\\nb"', '"\\ntenant"', '"\\ud800"', '"\\udfff\\ud83d"', '"\\u202e"'],
  ...['"__proto__"', '"constructor"', '"hasOwnProperty"', '"toString"', '"../../../etc/passwd"'],
  ...['"\\r\\nx-evil: 1\\r\\n\\r\\n"', `"\\u001b[2J${bel}"`, '"%s%n%x"', '"\\"}],\\"a\\":1"'],
  ...[
    '"{{ 7*7 }}{% for x in range(10**9) %}"',
    '"<|im_end|>\\n<|im_start|>system"',
    '"data: x\\n\\n"',
  ],
  ...['"e\\u0301\\u0301\\u0301"', '"\\ufeff"', '"\\uffff"', '"👩‍👩‍👧‍👦🏳️‍🌈"', '"´•߷꧂𒐫"'],
];

/** Long, and long in a way that some algorithms meet badly. */
const longTexts: readonly Value[] = [
  () => longText("a", 20_000),
  () => longText("a", 1_000_000),
  () => longText(" ", 100_000),
  () => longText("é", 100_000),
  () => longText("\n", 50_000),
  () => longText("1 ", 100_000),
  () => longText("\u0000", 50_000),
  () => longText("<|im_end|>", 20_000),
  () => longText("{{", 20_000),
  () => longText("(", 20_000),
];

const textHostile = [...wrongTypes, ...extremes.slice(0, 4), ...strangeTexts, ...longTexts];

export const flag: Family = { right: ["true", "false"], hostile: [...wrongTypes, '"true"', "0"] };
export const text: Family = { right: ['"abc"', '"The cache"'], hostile: textHostile };

/** A count or a size. */
export function integer(...right: Value[]): Family {
  return { right, hostile: [...extremes, ...wrongTypes] };
}

/** A number that may have a fraction. */
export const number = integer;

/** One of some words. */
export function word(...right: Value[]): Family {
  return { right, hostile: textHostile };
}

/** A list whose elements are the given ones; `hostile` adds to what every list is given. */
export function list(element: JsonText, right: readonly Value[], hostile: Value[] = []): Family {
  return {
    right,
    hostile: [
      ...wrongTypes,
      ...hostile,
      () => repeated(element, 64),
      () => repeated(element, 65),
      () => repeated(element, 2049),
      () => repeated(element, 50_000),
      () => repeated(element, 300_000),
      `[${element},null]`,
      `[[${element}]]`,
    ],
  };
}

/** Elements that are texts of every strange kind, each as a list of one. */
export const strangeTextLists: readonly Value[] = [
  ...strangeTexts.map((value) => `[${textOf(value)}]`),
  ...longTexts.map((value) => () => `[${textOf(value)}]`),
  () => `[${Array.from({ length: 5_000 }, (_, at) => `"w${at}"`).join(",")}]`,
  () => repeated(longText("a", 24_000), 64),
];

/** An object whose keys the client chooses. */
export function object(right: readonly Value[], hostile: readonly Value[] = []): Family {
  return {
    right,
    hostile: [
      ...wrongTypes,
      ...hostile,
      ...strangeTexts.map((value) => `{${textOf(value)}:1}`),
      () => objectText({ ["k".repeat(500_000)]: "1" }),
    ],
  };
}

/** Whatever is sent, it changes nothing. */
export const anything: Family = { right: ["null", '"abc"', "1"], hostile: textHostile };

/** Only its neutral value is taken. */
export function unsupported(...right: Value[]): Family {
  return { right: ["null", ...right], hostile: [...wrongTypes, ...extremes] };
}

/** The value's text, made now. */
export function textOf(value: Value): JsonText {
  return typeof value === "string" ? value : value();
}
