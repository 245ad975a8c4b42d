/** Grammars and templates of every kind that are large, deep, ambiguous, endless, empty, or wrong. */
import { objectText, repeated } from "./json-text.ts";
import type { Value } from "./value-families.ts";

const quoted = (text: string): string => JSON.stringify(text);

/** Regular expressions: nested counts, ambiguity, look-around, classes, broken ones. */
export const regexes: readonly Value[] = [
  ...["(([a-z]{1,200}){1,200}){1,30}", "(a+)+$", "(a|a)*b", "(a|aa)+", "((a{0,99}){0,99}){0,99}"],
  ...["(", "[", "a{2,1}", "\\", "(?=a)b", "(?<=a)b", "\\1", "(?<n>a)\\k<n>", "^$", "", "[^\\s\\S]"],
  ...["a{4294967297}", "a{0,65536}", "[\\u0000-\\uffff]{1,500}", "\\p{L}{1,300}", ".*.*.*.*.*x"],
  ...["[z-a]", "(?i)abc", "a**", "\\ud800", "\u0000", "(?:(?:(?:(?:a?){20}){20}){20}){20}"],
  ...["([a-z]{1,50}@[a-z]{1,50}){1,50}", "(x+x+)+y", "[\ud83d\ude00-\ud83d\ude4f]{1,100}"],
].map(quoted);

export const largeRegexes: readonly Value[] = [
  () => quoted("(".repeat(5_000) + ")".repeat(5_000)),
  () => quoted(Array.from({ length: 20_000 }, (_, at) => `w${at}`).join("|")),
  () => quoted("[a-z]".repeat(20_000)),
  () => quoted("a?".repeat(5_000) + "a".repeat(5_000)),
];

/** EBNF: left recursion, ambiguity, chains of rules, missing and doubled ones, no language. */
export const grammars: readonly Value[] = [
  ...['root ::= "a" root "a" | "a" root | root "a" | ""', "root ::= root", 'root ::= root | "a"'],
  ...[
    "root ::= a\na ::= b\nb ::= a",
    'x ::= "a"',
    "root ::= missing",
    'root ::= "a',
    "root ::= [",
    "",
  ],
  ...['root ::= "a" root | "a" root "a" | ""', 'root ::= ("a" | "a"*)*', 'root ::= ""', "root ::="],
  ...['root ::= "a"\nroot ::= "b"', "root ::= [^\\u0000-\\U0010ffff]", 'root ::= "\\ud800"'],
  ...["root ::= [a-z]{1,4294967297}", 'root ::= (("a"{1,300}){1,300}){1,300}', "::= ::= ::="],
  ...[
    'root ::= "\u0000" | "\n"',
    'root ::= (root root) | "a"',
    "root ::= [z-a]",
    "# only a comment",
  ],
].map(quoted);

export const largeGrammars: readonly Value[] = [
  () => quoted(chain(12_000)),
  () => quoted(chain(400)),
  () => quoted(`root ::= ${"(".repeat(5_000)}"a"${")".repeat(5_000)}`),
  () => quoted(`root ::= ${Array.from({ length: 10_000 }, (_, at) => `"w${at}"`).join(" | ")}`),
  () => quoted(`root ::= ${'"a" '.repeat(50_000)}`),
];

/** `count` rules, each of which is the next one. */
function chain(count: number): string {
  const rules = Array.from({ length: count }, (_, at) => `r${at} ::= r${at + 1}`);
  return ["root ::= r0", ...rules, `r${count} ::= "a"`].join("\n");
}

/** JSON schemas: references in circles, false, contradictions, unknown words, patterns, counts. */
export const schemas: readonly Value[] = [
  ...[
    '{"$ref":"#"}',
    '{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/a"}}}',
    '{"type":"nothing"}',
  ],
  ...['{"$ref":"http://127.0.0.1:1/x"}', '{"$ref":"file:///etc/passwd"}', '{"$ref":"#/missing"}'],
  ...[
    '{"not":{}}',
    '{"enum":[]}',
    '{"const":1,"enum":[2]}',
    '{"type":"string","pattern":"(a+)+$"}',
  ],
  ...['{"type":"string","pattern":"["}', '{"type":"string","minLength":5,"maxLength":2}'],
  ...['{"type":"string","maxLength":4294967297}', '{"type":"array","minItems":1e9}', '{"type":[]}'],
  ...[
    '{"type":"integer","minimum":5,"maximum":1}',
    '{"type":"number","multipleOf":0}',
    '{"allOf":[]}',
  ],
  ...['{"type":"integer","minimum":-9007199254740993,"maximum":9007199254740993}', '{"anyOf":[]}'],
  ...['{"type":"object","properties":{"__proto__":{"type":"string"}},"required":["__proto__"]}'],
  ...['{"type":"object","required":["a"],"properties":{},"additionalProperties":false}'],
  ...['{"type":"object","properties":{"\\ud800":{"type":"string"}},"required":["\\ud800"]}'],
  ...['{"type":"string","format":"email"}', '{"type":"string","pattern":"[a-z]{1,200}"}'],
];

export const largeSchemas: readonly Value[] = [
  () => linkedReferences(40),
  () => linkedReferences(60),
  () => linkedReferences(2_000),
  () => optionalStrings(50),
  () => optionalStrings(100),
  () => optionalStrings(1_000),
  () => `{"enum":${repeated('"abc"', 20_000)}}`,
  () => `{"anyOf":${repeated('{"type":"string","maxLength":50}', 500)}}`,
  () => `{"type":"string","description":"${"x".repeat(500_000)}"}`,
  () => `${'{"type":"array","items":'.repeat(30)}{}${"}".repeat(30)}`,
  () => `{"type":"array","items":{"type":"string"},"minItems":100000}`,
];

/** Definitions that each hold the next one: flat to look at, deep to compile. */
function linkedReferences(count: number): string {
  const link = (at: number): string =>
    `{"type":"object","properties":{"next":{"$ref":"#/$defs/d${at + 1}"}},"required":["next"]}`;
  const defs = Object.fromEntries(Array.from({ length: count }, (_, at) => [`d${at}`, link(at)]));
  return `{"$ref":"#/$defs/d0","$defs":${objectText({ ...defs, [`d${count}`]: '{"type":"null"}' })}}`;
}

function optionalStrings(count: number): string {
  const names = Array.from({ length: count }, (_, at) => `p${at}`);
  const properties = objectText(
    Object.fromEntries(names.map((name) => [name, '{"type":"string"}'])),
  );
  return `{"type":"object","properties":${properties},"additionalProperties":false}`;
}

/** Structural tags: empty, recursive, with schemas of the above. */
export const structuralTags: readonly Value[] = [
  ...[
    '{"type":"structural_tag"}',
    '{"type":"structural_tag","structures":[null],"triggers":["a"]}',
  ],
  ...[
    '{"type":"structural_tag","structures":[],"triggers":[]}',
    '{"type":"structural_tag","format":null}',
  ],
  ...['{"type":"structural_tag","structures":[{"begin":"","schema":{},"end":""}],"triggers":[""]}'],
  ...['{"type":"structural_tag","format":{"type":"sequence","elements":[]}}', '{"structures":1e9}'],
  ...[
    '{"type":"structural_tag","format":{"type":"any_text"}}',
    '{"type":"structural_tag","format":{}}',
  ],
  ...['{"type":"structural_tag","format":{"type":"const_string","value":""}}'],
  () =>
    `{"type":"structural_tag","format":{"type":"or","elements":${repeated('{"type":"const_string","value":"a"}', 20_000)}}}`,
  () => `{"type":"structural_tag","format":${deepFormat(25)}}`,
];

function deepFormat(depth: number): string {
  const open = '{"type":"sequence","elements":[';
  return `${open.repeat(depth)}{"type":"any_text"}${"]}".repeat(depth)}`;
}

export const choices: readonly Value[] = [
  '["a","a","a"]',
  '["","a"]',
  '["\\ud800"]',
  '["\\u0000"]',
  '["a\\nb","a"]',
  () => `[${Array.from({ length: 20_000 }, (_, at) => `"choice ${at}"`).join(",")}]`,
  () => repeated(JSON.stringify("a".repeat(10_000)), 20),
];

/** Chat templates: loops without end, texts that double, recursion, what is not there. */
export const templates: readonly Value[] = [
  ...["{% for a in range(3000000) %}x{% endfor %}", "{{ messages.__proto__.polluted }}", "{{"],
  ...["{% for a in range(10**9) %}{% endfor %}", "{{ range(10**9) | list | length }}", "{% if %}"],
  ...[
    '{% set ns = namespace(t="a") %}{% for a in range(40) %}{% set ns.t = ns.t + ns.t %}{% endfor %}',
  ],
  ...[
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{{ raise_exception('\u0000\n' * 100000) }}",
  ],
  ...[
    "{{ 'a' * 10**9 }}",
    "{{ constructor.constructor('return process')().exit() }}",
    "{{ nothing }}",
  ],
  ...[
    "{{ messages[0].content.constructor }}",
    "{{ ''.join(messages) }}",
    "{{ messages | tojson }}",
  ],
].map(quoted);

export const longTemplates: readonly Value[] = [
  () => quoted("{{ 1 }}".repeat(50_000)),
  () => quoted(`{{ ${"(".repeat(5_000)}1${")".repeat(5_000)} }}`),
  () => quoted(`${"{% if true %}".repeat(5_000)}x${"{% endif %}".repeat(5_000)}`),
];
