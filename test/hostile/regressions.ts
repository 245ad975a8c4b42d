/**
 * Requests that once ended the server, stopped all others or filled its memory; and cases that the
 * generator found. Each is sent in every run, before the generated ones.
 */
import { sized } from "../support/full.ts";
import { largeGrammars } from "./grammar-values.ts";
import type { BodyCase } from "./hostile-case.ts";
import { type JsonFields, objectText, repeated } from "./json-text.ts";
import { textOf } from "./value-families.ts";

const completions = "/v1/completions";
const chat = "/v1/chat/completions";

/** Fields over those of a small right request. */
function pinned(name: string, path: string, fields: JsonFields, ways?: BodyCase["ways"]): BodyCase {
  const first: JsonFields =
    path === chat ? { messages: '[{"role":"user","content":"Hi"}]' } : { prompt: '"A cache is"' };
  const draw = { max_tokens: "4", temperature: "0" };
  const base = path.startsWith("/v1/") ? { ...first, ...draw } : {};
  return {
    ...{ kind: "body", name: `pinned: ${name}`, path, fields: Object.keys(fields) },
    body: objectText({ ...base, ...fields }),
    ways: ways ?? (path.startsWith("/v1/") ? ["whole", "stream"] : ["whole"]),
  };
}

const wholeBlocks = JSON.stringify("A cache keeps copies of data. ".repeat(20));
const quoted = (text: string): string => JSON.stringify(text);
const ambiguous = quoted('root ::= "a" root "a" | "a" root | root "a" | ""');
const fiftyStrings = (count: number): string => {
  const names = Array.from({ length: count }, (_, at) => [`p${at}`, '{"type":"string"}']);
  return `{"type":"object","properties":${objectText(Object.fromEntries(names))}}`;
};

const manyFields = (count: number): string =>
  `{${Array.from({ length: count }, (_, at) => `"${at}":0`).join(",")}}`;

export const REGRESSIONS: readonly BodyCase[] = [
  pinned("a salt of two lines", completions, { prompt: wholeBlocks, cache_salt: '"a\\nb"' }),
  pinned("a salt that begins a line", completions, {
    ...{ prompt: wholeBlocks, cache_salt: '"\\ntenant"' },
  }),
  // How many of its samples run at once decides whether they reach the limit of their memory.
  pinned(
    "a grammar that exhausts its memory while tokens are accepted",
    completions,
    {
      ...{ structured_outputs: `{"grammar":${ambiguous}}`, n: sized("8", "24"), temperature: "1" },
      ...{ logit_bias: '{"68":100}', max_tokens: sized("150", "1000") },
    },
    ["whole"],
  ),
  pinned("12,000 rules, each of which is the next", completions, {
    guided_grammar: textOf(largeGrammars[0] ?? "null"),
  }),
  pinned("a regular expression of nested counts", completions, {
    guided_regex: '"(([a-z]{1,200}){1,200}){1,30}"',
  }),
  pinned("50 optional strings", completions, { guided_json: fiftyStrings(50) }),
  pinned("100 optional strings", completions, { guided_json: fiftyStrings(100) }),
  pinned(
    "many prompts as a stream",
    completions,
    { prompt: repeated('"A cache is"', sized(250, 1_000)), max_tokens: "2" },
    ["stream", "whole"],
  ),
  pinned("64 stop strings of 24,000 characters", completions, {
    ...{ stop: repeated(quoted("a".repeat(24_000)), 64), max_tokens: "64" },
  }),
  pinned("thousands of samples", completions, {
    ...{ n: sized("2048", "16384"), temperature: "1", max_tokens: "1" },
  }),
  pinned("many samples with a penalty", completions, {
    ...{ n: sized("256", "1024"), temperature: "1", max_tokens: "1", repetition_penalty: "1.1" },
    prompt: quoted("value ".repeat(950)),
  }),
  pinned("many samples of a long prompt with a prediction as long", completions, {
    ...{ n: sized("256", "1024"), temperature: "1", max_tokens: "4", ignore_eos: "true" },
    prompt: quoted("value ".repeat(950)),
    prediction: `{"type":"content","content":${quoted("value ".repeat(80_000))}}`,
  }),
  pinned("50,000 bad words", completions, {
    bad_words: `[${Array.from({ length: 50_000 }, (_, at) => `"word ${at}"`).join(",")}]`,
  }),
  pinned("a text of 8 MB", "/tokenize", { prompt: quoted("a cache ".repeat(2 ** 20)) }),
  pinned("a prompt of 10 MB", completions, { prompt: quoted("a cache ".repeat(1_250_000)) }),
  pinned("millions of empty lists", completions, { stop: repeated("[]", 1_300_000) }),
  pinned("millions of empty objects", "/tokenize", { prompt: repeated("{}", 1_300_000) }),
  pinned("millions of numbers", completions, { prompt: repeated("0", 2_000_000) }),
  pinned("as many numbers as are taken", completions, { prompt: repeated("0", 1_000_000) }),
  pinned("a million numbers, and an object that names a prototype", completions, {
    ...{ prompt: repeated("7", 1_000_000), top_k: '{"constructor":{"prototype":{}}}' },
  }),
  pinned("as many nulls as are taken", completions, { stop: repeated("null", 400_000) }),
  pinned("a million fields", completions, { logit_bias: manyFields(400_000) }),
  pinned("a count of candidates beyond 32 bits", completions, {
    ...{ top_k: "4294967297", temperature: "1", seed: "1" },
  }),
  pinned("the only token allowed is a bad word", completions, {
    ...{ allowed_token_ids: "[68]", bad_words: '["a"]', return_token_ids: "true" },
  }),
  pinned("a structure that is null", chat, {
    response_format: '{"type":"structural_tag","structures":[null],"triggers":["<f>"]}',
  }),
  pinned("a grammar of no text", completions, { guided_grammar: quoted("root ::= root") }),
  pinned("a choice and tokens that cannot write it", completions, {
    ...{ guided_choice: '["yes","no"]', allowed_token_ids: "[200,201]" },
  }),
  pinned("a template of three million turns", chat, {
    chat_template: '"{% for a in range(3000000) %}x{% endfor %}"',
  }),
  pinned("a broken call in the history", chat, {
    messages:
      '[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[{"type":"function",' +
      '"function":{"name":"f","arguments":"{\\"a\\":"}}]},{"role":"tool","content":"1"}]',
  }),
];
