// The grammars of bench/grammars.mjs and bench/grammar-pauses.mjs, by name.

const field = (place) =>
  [
    { type: "string", maxLength: 60 },
    { type: "integer", minimum: 0, maximum: 9_999 },
    { enum: ["red", "green", "blue"] },
    { type: "array", items: { type: "string" }, maxItems: 5 },
  ][place % 4];

function object(count, required) {
  const names = Array.from({ length: count }, (_, place) => `property_${place}`);
  return {
    json: {
      type: "object",
      properties: Object.fromEntries(names.map((name, place) => [name, field(place)])),
      ...(required ? { required: names } : {}),
    },
  };
}

let deep = { type: "string" };
for (let level = 0; level < 14; level++) deep = { type: "object", properties: { inner: deep } };

/** Structured output as the TypeScript API takes it. */
export const GRAMMARS = {
  "any object": { jsonObject: true },
  "50 properties": object(50, true),
  "50 optional": object(50, false),
  "200 properties": object(200, true),
  "200 optional": object(200, false),
  "1000 properties": object(1_000, true),
  "1000 optional": object(1_000, false),
  deep: { json: deep },
  recursive: {
    json: {
      $defs: {
        node: {
          type: "object",
          properties: { value: { type: "string" }, next: { $ref: "#/$defs/node" } },
          required: ["value"],
        },
      },
      $ref: "#/$defs/node",
    },
  },
  patterns: {
    json: {
      type: "object",
      properties: {
        date: { type: "string", format: "date-time" },
        mail: { type: "string", format: "email" },
        code: { type: "string", pattern: "^[A-Z]{2}-[0-9]{3,8}(x|yz)?$" },
      },
      required: ["date", "mail", "code"],
    },
  },
  "recursive EBNF": {
    grammar:
      'root ::= term (("+" | "-") term)*\nterm ::= number | name | "(" root ")"\n' +
      'number ::= [0-9]+ ("." [0-9]+)?\nname ::= [a-z] [a-z0-9_]*',
  },
  "ambiguous EBNF": { grammar: 'root ::= "a" root "a" | "a" root | root "a" | ""' },
  "nested repetitions": { regex: "(([a-z]{1,200}){1,200}){1,30}" },
};
