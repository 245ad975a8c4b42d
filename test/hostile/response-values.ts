/**
 * Which values each field of a request for a response is given. Fields that chats have, too, have
 * the values of field-values.ts; KEPT stands for the id of a kept response, ITEM for one of an item.
 */
import { ResponseRequest } from "../../src/server/openai/responses/response-request.ts";
import { FIELD_VALUES, type FieldValues } from "./field-values.ts";
import * as grammar from "./grammar-values.ts";
import { longText, nested, repeated } from "./json-text.ts";
import { filters, ranking } from "./rag-values.ts";
import { fieldPaths } from "./request-schemas.ts";
import * as family from "./value-families.ts";

const { anything, flag, integer, list, object, text, unsupported, word } = family;

const user = '{"role":"user","content":"Hi"}';
const called = '{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}';
const inItem = (item: string): string => `[${user},${item},${user}]`;
const inMessage = (value: string): string => inItem(`{"type":"message","role":"user",${value}}`);
const inOutput = (value: string): string =>
  inItem(`${called},{"type":"function_call_output",${value}}`);
const inReasoning = (value: string): string => inItem(`{"type":"reasoning",${value}}`);
const inTool = (value: string): string => `[{"type":"function","name":"f",${value}}]`;
const inSearch = (value: string): string =>
  `[{"type":"file_search","vector_store_ids":["vs_1"],${value}}]`;
const inFormat = (value: string): string => `{"format":{"type":"json_schema","name":"n",${value}}}`;

const ids: family.Family = {
  right: ['"c"'],
  hostile: [
    ...text.hostile,
    ...['"resp_"', '"../KEPT"', '"KEPT\\u0000"', `"resp_${"0".repeat(44)}"`, '"ITEM"', '"KEPT"'],
  ],
};
const parts = list('{"type":"input_text","text":"a"}', [
  ...['"Hi"', '[{"type":"input_text","text":"Hi"}]', '[{"type":"refusal","refusal":"No"}]'],
]);
const schema: family.Family = object(
  ['{"type":"object","properties":{"a":{"type":"integer"}}}'],
  [...grammar.schemas, ...grammar.largeSchemas],
);

const input: Readonly<Record<string, FieldValues>> = {
  input: list(
    user,
    ['"Hi"', `[${user}]`, inItem(called)],
    [
      ...text.hostile,
      ...[`[${called}]`, '[{"type":"item_reference","id":"ITEM"}]', '[{"id":"ITEM"}]'],
      () => repeated('{"type":"item_reference","id":"ITEM"}', 4_096),
      () => repeated(called, 4_096),
      () => repeated('{"type":"reasoning"}', 4_096),
      () => `[{"role":"user","content":${repeated('{"type":"input_text","text":"a"}', 4_097)}}]`,
    ],
  ),
  "input[].type": {
    ...word('"message"'),
    around: inItem('{"type":$,"role":"user","content":"a"}'),
  },
  "input[].id": { ...ids, around: inMessage('"content":"a","id":$') },
  "input[].role": {
    ...word('"assistant"', '"developer"'),
    around: inItem('{"type":"message","content":"a","role":$}'),
  },
  "input[].content": { ...parts, around: inMessage('"content":$') },
  "input[].content[].type": {
    ...word('"input_text"'),
    around: inMessage('"content":[{"type":$,"text":"a"}]'),
  },
  "input[].content[].text": {
    ...text,
    around: inMessage('"content":[{"type":"output_text","text":$}]'),
  },
  "input[].content[].refusal": {
    ...text,
    around: inMessage('"content":[{"type":"refusal","refusal":$}]'),
  },
  "input[].call_id": { ...ids, around: inOutput('"output":"a","call_id":$') },
  "input[].name": {
    ...text,
    around: inItem('{"type":"function_call","call_id":"c","arguments":"{}","name":$}'),
  },
  "input[].arguments": {
    right: ['"{}"', '"{\\"a\\":1}"'],
    hostile: [
      ...text.hostile,
      ...['"{"', '"[1,2"', '"{\\"__proto__\\":1}"', '"1e999"'],
      () => JSON.stringify(nested(20_000)),
    ],
    around: inItem('{"type":"function_call","call_id":"c","name":"f","arguments":$}'),
  },
  "input[].output": { ...parts, around: inOutput('"call_id":"c","output":$') },
  "input[].output[].type": {
    ...word('"input_text"'),
    around: inOutput('"call_id":"c","output":[{"type":$,"text":"a"}]'),
  },
  "input[].output[].text": {
    ...text,
    around: inOutput('"call_id":"c","output":[{"type":"input_text","text":$}]'),
  },
  "input[].output[].refusal": {
    ...text,
    around: inOutput('"call_id":"c","output":[{"type":"refusal","refusal":$}]'),
  },
  "input[].summary": {
    ...list('{"type":"summary_text","text":"a"}', ["[]"]),
    around: inReasoning('"summary":$'),
  },
  "input[].summary[].type": {
    ...word('"summary_text"'),
    around: inReasoning('"summary":[{"type":$,"text":"a"}]'),
  },
  "input[].summary[].text": {
    ...text,
    around: inReasoning('"summary":[{"type":"summary_text","text":$}]'),
  },
  "input[].queries": {
    ...list('"a"', ["[]"], [...family.strangeTextLists]),
    around: inItem('{"type":"file_search_call","queries":$}'),
  },
  instructions: { right: ['"Be brief."', "null"], hostile: text.hostile },
  previous_response_id: ids,
};

const tools: Readonly<Record<string, FieldValues>> = {
  tools: list('{"type":"function","name":"f"}', ['[{"type":"function","name":"f"}]']),
  "tools[].type": { ...word('"function"'), around: '[{"type":$,"name":"f"}]' },
  "tools[].name": { ...word('"f"'), around: '[{"type":"function","name":$}]' },
  "tools[].description": { ...text, around: inTool('"description":$') },
  "tools[].parameters": {
    ...{ ...schema, around: inTool('"parameters":$') },
    beside: { tool_choice: '"required"' },
  },
  "tools[].strict": { ...flag, around: inTool('"strict":$') },
  "tools[].filters": { ...filters, around: inSearch('"filters":$') },
  ...Object.fromEntries(
    Object.entries(ranking("$")).map(([field, values]) => {
      const around = inSearch(`"ranking_options":${values.around ?? "$"}`);
      return [`tools[].${field}`, { ...values, around }];
    }),
  ),
  tool_choice: {
    ...word('"auto"', '"required"'),
    beside: { tools: '[{"type":"function","name":"f"}]' },
  },
  "tool_choice.type": { ...word('"function"'), around: '{"type":$,"name":"f"}' },
  "tool_choice.name": { ...word('"f"'), around: '{"type":"function","name":$}' },
  parallel_tool_calls: flag,
  max_tool_calls: integer("1"),
};

const format: Readonly<Record<string, FieldValues>> = {
  text: object(['{"format":{"type":"text"}}', '{"verbosity":"low"}']),
  "text.verbosity": { ...word('"low"'), around: '{"verbosity":$}' },
  "text.format": { ...object(['{"type":"json_object"}']), around: '{"format":$}' },
  "text.format.type": { ...word('"text"'), around: '{"format":{"type":$}}' },
  "text.format.name": {
    ...text,
    around: '{"format":{"type":"json_schema","schema":{"type":"null"},"name":$}}',
  },
  "text.format.description": {
    ...text,
    around: inFormat('"schema":{"type":"null"},"description":$'),
  },
  "text.format.schema": { ...schema, around: inFormat('"schema":$') },
  "text.format.strict": { ...flag, around: inFormat('"schema":{"type":"null"},"strict":$') },
};

const OWN: Readonly<Record<string, FieldValues>> = {
  ...{ ...input, ...tools, ...format },
  store: flag,
  metadata: object(
    ['{"a":"b"}'],
    [
      ...['{"a":1}', '{"a":null}', '{"__proto__":"a"}'],
      () => `{${Array.from({ length: 17 }, (_, at) => `"k${at}":"v"`).join(",")}}`,
      () => `{"a":${longText("x", 513)}}`,
    ],
  ),
  include: list('"file_search_call.results"', ['["message.output_text.logprobs"]']),
  max_output_tokens: integer("4", "1"),
  top_logprobs: {
    ...integer("0", "20"),
    beside: { include: '["message.output_text.logprobs"]' },
  },
  truncation: word('"auto"', '"disabled"'),
  reasoning: object(['{"effort":"low"}', "{}"]),
  ...Object.fromEntries(
    ["effort", "summary", "generate_summary", "context", "mode"].map((name) => [
      `reasoning.${name}`,
      { ...word('"low"', '"none"'), around: `{"${name}":$}` },
    ]),
  ),
  background: unsupported("false"),
  conversation: unsupported(),
  context_management: unsupported(),
  prompt: unsupported(),
  prompt_cache_options: anything,
};

const PATHS = fieldPaths(ResponseRequest);

/** By a field's path; a field without values is not in it. */
export const RESPONSE_VALUES: ReadonlyMap<string, FieldValues> = new Map(
  PATHS.flatMap((path) => {
    const values = OWN[path] ?? FIELD_VALUES[path];
    return values === undefined ? [] : [[path, values] as const];
  }),
);

/** Fields that have no values, and values of no field. */
export function unmatched(): { readonly fields: string[]; readonly values: string[] } {
  return {
    fields: PATHS.filter((path) => !RESPONSE_VALUES.has(path)),
    values: Object.keys(OWN).filter((path) => !PATHS.includes(path)),
  };
}
