/**
 * Which values each field of a request is given. Every field of every route stands here under its
 * path; one that does not fails `fields.test.ts`.
 */
import * as grammar from "./grammar-values.ts";
import { type JsonFields, longText, nested, repeated } from "./json-text.ts";
import type { Family, Value } from "./value-families.ts";
import * as family from "./value-families.ts";

export interface FieldValues extends Family {
  /** The top field's value around that of a field inside of it, which stands for `$`. */
  readonly around?: string;
  /** Fields without which this one means nothing. */
  readonly beside?: JsonFields;
}

const { flag, text, integer, number, word, list, object, anything, unsupported } = family;

const message = '{"role":"user","content":"Hi"}';
const tool = '{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}';
const textPrompts: readonly Value[] = [
  ...['"\\u0000"', '"\\ud800"', '"<|endoftext|>"', "[[]]", "[[1],[]]", "[[1],[4096]]", '["a",1]'],
  ...["[4095]", "[4096]", "[2147483648]", "[-1]", "[0.5]", "[1e309]", '["a","b"]', "[[1,2],[3]]"],
  () => longText("a ", 1_000),
  () => longText("a ", 3_000),
  () => longText("a ", 1_000_000),
  () => longText("aaaaaaaaaaaaaaaa", 60_000),
  () => longText("\ud83d\ude00", 50_000),
  () => repeated("7", 2_047),
  () => repeated("7", 2_048),
  () => repeated("7", 1_000_000),
  () => repeated('"a"', 300),
  () => repeated('"a"', 2_048),
  () => repeated("[7]", 2_048),
];
const prompt: Family = {
  right: ['"A cache is"', '["A cache","A mutex"]', "[5,6,7]", "[[5,6],[7]]"],
  hostile: [...text.hostile, ...textPrompts],
};
const ids = (...right: Value[]): Family =>
  list("7", right, ["[4095]", "[4096]", "[-1]", "[4294967297]", "[0.5]", "[1e309]", '["7"]']);
const schemaField: Family = object(
  ['{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}', '{"type":"null"}'],
  [...grammar.schemas, ...grammar.largeSchemas],
);
const regexField: Family = {
  right: ['"[a-c]{2}"', '"yes|no"'],
  hostile: [...text.hostile, ...grammar.regexes, ...grammar.largeRegexes],
};
const grammarField: Family = {
  right: ['"root ::= \\"a\\" | \\"b\\""'],
  hostile: [...text.hostile, ...grammar.grammars, ...grammar.largeGrammars],
};
const choiceField: Family = list('"a"', ['["yes","no"]'], [...grammar.choices]);

const sampling: Readonly<Record<string, FieldValues>> = {
  n: { ...integer("1", "2", "4"), beside: { temperature: "1" } },
  temperature: number("0", "0.7", "2"),
  top_p: { ...number("0.5", "1"), beside: { temperature: "1" } },
  top_k: { ...integer("5", "-1"), beside: { temperature: "1" } },
  min_p: { ...number("0.1", "0"), beside: { temperature: "1" } },
  repetition_penalty: number("1.1", "1"),
  presence_penalty: number("0.5", "-2"),
  frequency_penalty: number("0.5", "2"),
  seed: { ...integer("7", "-1"), beside: { temperature: "1" } },
  stop: list('"z"', ['"."', '["a","b"]'], [...family.strangeTextLists, ...text.hostile]),
  stop_token_ids: ids("[7]", "[0,3]"),
  include_stop_str_in_output: { ...flag, beside: { stop: '["e"]' } },
  ignore_eos: flag,
  min_tokens: integer("0", "2"),
  max_tokens: integer("1", "6"),
  prompt_logprobs: integer("0", "3"),
  logit_bias: object(
    ['{"7":5}', '{"7":-100,"8":1.5}'],
    [
      '{"4096":1}',
      '{"-1":1}',
      '{"1e3":1}',
      '{"7":1e309}',
      '{"7":"a"}',
      '{"00007":1}',
      '{"7":null}',
    ],
  ),
  allowed_token_ids: ids("[7,8,9]"),
  bad_words: list('"b"', ['["cache"]'], [...family.strangeTextLists]),
  skip_special_tokens: flag,
  spaces_between_special_tokens: flag,
  use_beam_search: { ...flag, beside: { beam_width: "2" } },
  beam_width: { ...integer("2", "4"), beside: { use_beam_search: "true" } },
  length_penalty: { ...number("1", "0.5"), beside: { use_beam_search: "true", beam_width: "2" } },
  early_stopping: {
    ...word("true", '"never"'),
    beside: { use_beam_search: "true", beam_width: "2" },
  },
  speculative: object([
    ...['{"kind":"lookup","length":31}', '{"kind":"redrafter","width":2}'],
    ...["true", "false", "{}"],
  ]),
  "speculative.kind": { ...word('"lookup"', '"redrafter"'), around: '{"kind":$}' },
  "speculative.length": { ...integer("1", "2"), around: '{"length":$}' },
  "speculative.width": { ...integer("1", "2"), around: '{"width":$}' },
  prediction: object(['{"type":"content","content":"A cache is a cache"}']),
  "prediction.type": { ...word('"content"'), around: '{"type":$,"content":"A cache"}' },
  "prediction.content": {
    right: ['"A cache is"', '[{"type":"text","text":"A"},{"type":"text","text":" cache"}]'],
    hostile: [...text.hostile, ...family.strangeTextLists],
    around: '{"type":"content","content":$}',
  },
  "prediction.content[].type": {
    ...word('"text"'),
    around: '{"type":"content","content":[{"type":$,"text":"A cache"}]}',
  },
  "prediction.content[].text": {
    ...text,
    around: '{"type":"content","content":[{"type":"text","text":$}]}',
  },
};

const inSchema = (value: string): string =>
  `{"type":"json_schema","json_schema":{"name":"n","schema":{"type":"null"},${value}}}`;

const structure: Readonly<Record<string, FieldValues>> = {
  response_format: object(['{"type":"json_object"}', '{"type":"text"}'], grammar.structuralTags),
  "response_format.type": { ...word('"text"', '"json_object"'), around: '{"type":$}' },
  "response_format.json_schema": {
    ...object(['{"name":"n","schema":{"type":"null"}}']),
    around: '{"type":"json_schema","json_schema":$}',
  },
  "response_format.json_schema.name": { ...text, around: inSchema('"name":$') },
  "response_format.json_schema.description": { ...text, around: inSchema('"description":$') },
  "response_format.json_schema.schema": {
    ...schemaField,
    around: '{"type":"json_schema","json_schema":{"name":"n","schema":$}}',
  },
  "response_format.json_schema.strict": { ...flag, around: inSchema('"strict":$') },
  structured_outputs: object(['{"choice":["yes","no"]}']),
  "structured_outputs.json": { ...schemaField, around: '{"json":$}' },
  "structured_outputs.json_object": { ...flag, around: '{"json_object":$}' },
  "structured_outputs.regex": { ...regexField, around: '{"regex":$}' },
  "structured_outputs.choice": { ...choiceField, around: '{"choice":$}' },
  "structured_outputs.grammar": { ...grammarField, around: '{"grammar":$}' },
  "structured_outputs.structural_tag": {
    ...object(['{"type":"structural_tag","format":{"type":"any_text"}}'], grammar.structuralTags),
    around: '{"structural_tag":$}',
  },
  ...Object.fromEntries(
    ["any_whitespace", "additional_properties", "fallback"].map((name) => [
      `structured_outputs.disable_${name}`,
      { ...anything, around: `{"regex":"[a-c]{2}","disable_${name}":$}` },
    ]),
  ),
  "structured_outputs.whitespace_pattern": {
    ...anything,
    around: '{"json":{"type":"null"},"whitespace_pattern":$}',
  },
  guided_json: schemaField,
  guided_regex: regexField,
  guided_choice: choiceField,
  guided_grammar: grammarField,
  guided_decoding_backend: anything,
  guided_whitespace_pattern: anything,
};

const retentionRange = (value: string): string =>
  `{"token_range_retention_configs":[{"token_start":0,${value}}]}`;

const delivery: Readonly<Record<string, FieldValues>> = {
  model: { right: ['"pocket"', "null"], hostile: text.hostile },
  stream: flag,
  stream_options: { ...object(['{"include_usage":true}']), beside: { stream: "true" } },
  ...Object.fromEntries(
    ["include_usage", "continuous_usage_stats", "include_obfuscation"].map((name) => [
      `stream_options.${name}`,
      { ...flag, around: `{"${name}":$}`, beside: { stream: "true" } },
    ]),
  ),
  echo: flag,
  truncate_prompt_tokens: integer("2", "-1"),
  truncation_side: unsupported('"left"'),
  no_stop_trim: unsupported("false"),
  separate_reasoning: unsupported("true"),
  stream_reasoning: unsupported("true"),
  return_hidden_states: unsupported("false"),
  priority: {
    right: [...integer("0", "-3").right, '"batch"'],
    hostile: [...integer("0").hostile, '"Batch"', '"batch "'],
  },
  deadlines: object(['{"ttft_ms":60000,"tbt_ms":1000}', "{}", "null"], ['{"ttft":5}']),
  ...Object.fromEntries(
    ["ttft_ms", "tbt_ms"].map((name) => [
      `deadlines.${name}`,
      { ...number("60000", "0.5"), around: `{"${name}":$}` },
    ]),
  ),
  cache_salt: text,
  kv_cache_retention_config: object(['{"decode_retention_priority":35}']),
  "kv_cache_retention_config.token_range_retention_configs": {
    ...list('{"token_start":0,"priority":50}', ['[{"token_start":0,"priority":80}]']),
    around: '{"token_range_retention_configs":$}',
  },
  "kv_cache_retention_config.token_range_retention_configs[].token_start": {
    ...integer("0"),
    around: '{"token_range_retention_configs":[{"token_start":$,"priority":50}]}',
  },
  "kv_cache_retention_config.token_range_retention_configs[].token_end": {
    ...integer("4"),
    around: retentionRange('"token_end":$'),
  },
  "kv_cache_retention_config.token_range_retention_configs[].priority": {
    ...number("80"),
    around: retentionRange('"priority":$'),
  },
  "kv_cache_retention_config.token_range_retention_configs[].duration_ms": {
    ...number("1000"),
    around: retentionRange('"priority":50,"duration_ms":$'),
  },
  ...Object.fromEntries(
    ["decode_retention_priority", "decode_duration_ms"].map((name) => [
      `kv_cache_retention_config.${name}`,
      { ...number("40"), around: `{"${name}":$}` },
    ]),
  ),
  "kv_cache_retention_config.transfer_mode": { ...word('"DRAM"'), around: '{"transfer_mode":$}' },
  "kv_cache_retention_config.directory": { ...text, right: ['""'], around: '{"directory":$}' },
  request_id: text,
  return_token_ids: flag,
  return_kv_byte_seconds: flag,
  return_tokens_as_token_ids: { ...flag, beside: { logprobs: "1" } },
};

const streamed = { stream: "true" };
/** One choice, as another worker left it. */
const kvSources = [
  ...['{"host":"","port":1}', '{"host":"a","port":0}', '{"host":"a","port":65536}', '{"host":"a"}'],
  ...['{"port":1}', "{}", "[]", "1", "true", '"127.0.0.1:9"', '[{"host":"a","port":1}]'],
  ...['{"host":"a","port":1,"deadline_ms":0}', '{"host":"a","port":1,"secret":"x"}'],
  ...['{"host":["a"],"port":1}', `{"host":"${"a".repeat(300)}","port":1}`],
];

const continued = (...right: Value[]): Family =>
  list('{"token_ids":"7"}', right, [
    '[{"token_ids":"4095"},{"token_ids":""}]',
    "[{}]",
    '[{"token_ids":[5]}]',
    '["5"]',
  ]);
const idTexts: readonly Value[] = [
  ...[
    '"4095"',
    '"4096"',
    '"999999999"',
    '"-1"',
    '"5,"',
    '",5"',
    '"5,,6"',
    '"5 "',
    '"0x5"',
    '"1e3"',
  ],
  () => longText("5,", 4_000),
  () => `"${"7,".repeat(2_000)}7"`,
  () => `"${"7,".repeat(1_000_000)}7"`,
];

const moved: Readonly<Record<string, FieldValues>> = {
  perigee: object(['{"markers":true,"seed":5}', "{}", "null"]),
  "perigee.prompt_token_ids": {
    ...ids("[5,6,7]"),
    around: '{"prompt_token_ids":$}',
  },
  "perigee.markers": { ...flag, around: '{"markers":$}', beside: streamed },
  "perigee.seed": { ...integer("0", "7"), around: '{"seed":$}' },
  "perigee.created": { ...integer("0", "1760000000"), around: '{"created":$}' },
  "perigee.cached_tokens": { ...integer("0", "2"), around: '{"cached_tokens":$}' },
  "perigee.role_epoch": { ...integer("0", "7"), around: '{"role_epoch":$}' },
  "perigee.kv_source": {
    ...{ right: ['{"host":"127.0.0.1","port":9}'], hostile: kvSources },
    around: '{"kv_source":$}',
  },
  "perigee.kv_source.host": {
    ...{ right: ['"127.0.0.1"'], hostile: text.hostile },
    around: '{"kv_source":{"host":$,"port":9}}',
  },
  "perigee.kv_source.port": {
    ...integer("1", "9"),
    around: '{"kv_source":{"host":"127.0.0.1","port":$}}',
  },
  "perigee.kv_source.compute": {
    ...flag,
    around: '{"kv_source":{"host":"127.0.0.1","port":9,"compute":$}}',
  },
  "perigee.kv_source.deadline_ms": {
    ...integer("1", "500"),
    around: '{"kv_source":{"host":"127.0.0.1","port":9,"deadline_ms":$}}',
  },
  "perigee.kv_source.prefix": {
    ...{ right: ['{"host":"127.0.0.1","port":9}'], hostile: kvSources },
    around: '{"kv_source":{"host":"127.0.0.1","port":9,"prefix":$}}',
  },
  "perigee.kv_source.prefix.host": {
    ...{ right: ['"127.0.0.1"'], hostile: text.hostile },
    around: '{"kv_source":{"host":"127.0.0.1","port":9,"prefix":{"host":$,"port":9}}}',
  },
  "perigee.kv_source.prefix.port": {
    ...integer("1", "9"),
    around: '{"kv_source":{"host":"127.0.0.1","port":9,"prefix":{"host":"127.0.0.1","port":$}}}',
  },
  "perigee.continue": {
    ...continued('[{"token_ids":"5,6"}]', '[{"token_ids":""}]'),
    ...{ around: '{"markers":true,"continue":$}', beside: streamed },
  },
  "perigee.continue[].token_ids": {
    ...{ right: ['"5,6"', '""'], hostile: [...text.hostile, ...idTexts] },
    ...{ around: '{"continue":[{"token_ids":$}]}', beside: streamed },
  },
  "perigee.continue[].ended": {
    ...flag,
    ...{ around: '{"continue":[{"token_ids":"5","ended":$}]}', beside: streamed },
  },
};

const inMessage = (value: string): string => `[{"role":"user","content":"Hi",${value}}]`;
const inCall = (value: string): string =>
  `[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[${value}]},` +
  '{"role":"tool","content":"1"}]';
const inSearch = (value: string): string =>
  `[{"type":"file_search","vector_store_ids":["vs_1"],${value}}]`;
const inTool = (value: string): string => `[{"type":"function","function":{"name":"f",${value}}}]`;

const conversation: Readonly<Record<string, FieldValues>> = {
  messages: list(
    message,
    [`[${message}]`],
    [
      '[{"role":"assistant","content":"a"}]',
      '[{"role":"user"}]',
      '[{"role":"user","content":null}]',
    ],
  ),
  "messages[].role": { ...word('"user"', '"system"'), around: '[{"role":$,"content":"Hi"}]' },
  "messages[].content": { ...prompt, right: ['"Hi"'], around: '[{"role":"user","content":$}]' },
  "messages[].content[].type": {
    ...word('"text"'),
    around: '[{"role":"user","content":[{"type":$,"text":"Hi"}]}]',
  },
  "messages[].content[].text": {
    ...text,
    around: '[{"role":"user","content":[{"type":"text","text":$}]}]',
  },
  "messages[].content[].refusal": {
    ...text,
    around: '[{"role":"assistant","content":[{"type":"refusal","refusal":$}]}]',
  },
  "messages[].tool_calls": {
    ...list('{"function":{"name":"f","arguments":"{}"}}', ["null"]),
    around: inMessage('"tool_calls":$'),
  },
  "messages[].tool_calls[].type": {
    ...word('"function"'),
    around: inCall('{"type":$,"function":{"name":"f","arguments":"{}"}}'),
  },
  "messages[].tool_calls[].function": {
    ...object(['{"name":"f","arguments":"{}"}']),
    around: inCall('{"function":$}'),
  },
  "messages[].tool_calls[].function.name": {
    ...text,
    around: inCall('{"function":{"name":$,"arguments":"{}"}}'),
  },
  "messages[].tool_calls[].function.arguments": {
    right: ['"{}"', '"{\\"a\\":1}"'],
    hostile: [
      ...text.hostile,
      ...['"{"', '"{\\"a\\":}"', '"[1,2"', '"{\\"__proto__\\":1}"', '"1e999"'],
      () => JSON.stringify(nested(20_000)),
    ],
    around: inCall('{"function":{"name":"f","arguments":$}}'),
  },
  tools: list(tool, [`[${tool}]`]),
  "tools[].type": { ...word('"function"'), around: '[{"type":$,"function":{"name":"f"}}]' },
  "tools[].function": {
    ...object(['{"name":"f"}']),
    around: '[{"type":"function","function":$}]',
  },
  "tools[].function.name": {
    ...word('"f"'),
    around: '[{"type":"function","function":{"name":$}}]',
    beside: { tool_choice: '"required"' },
  },
  "tools[].function.description": { ...text, around: inTool('"description":$') },
  "tools[].function.parameters": {
    ...schemaField,
    around: inTool('"parameters":$'),
    beside: { tool_choice: '"required"' },
  },
  "tools[].function.strict": { ...flag, around: inTool('"strict":$') },
  "tools[].vector_store_ids": {
    ...list('"vs_1"', ['["vs_1"]'], [...family.strangeTextLists]),
    around: '[{"type":"file_search","vector_store_ids":$}]',
  },
  "tools[].max_num_results": { ...integer("1", "50"), around: inSearch('"max_num_results":$') },
  "tools[].filters": {
    ...object(['{"type":"eq","key":"a","value":1}']),
    around: inSearch('"filters":$'),
  },
  "tools[].ranking_options": {
    ...object(['{"ranker":"none"}']),
    around: inSearch('"ranking_options":$'),
  },
  "tools[].ranking_options.ranker": {
    ...word('"auto"'),
    around: inSearch('"ranking_options":{"ranker":$}'),
  },
  "tools[].ranking_options.score_threshold": {
    ...number("0", "0.5"),
    around: inSearch('"ranking_options":{"score_threshold":$}'),
  },
  tool_choice: {
    ...word('"auto"', '"none"', '"required"'),
    beside: { tools: `[${tool}]` },
  },
  "tool_choice.type": {
    ...word('"function"'),
    around: '{"type":$,"function":{"name":"f"}}',
    beside: { tools: `[${tool}]` },
  },
  "tool_choice.function": {
    ...object(['{"name":"f"}']),
    around: '{"type":"function","function":$}',
    beside: { tools: `[${tool}]` },
  },
  "tool_choice.function.name": {
    ...word('"f"'),
    around: '{"type":"function","function":{"name":$}}',
    beside: { tools: `[${tool}]` },
  },
  parallel_tool_calls: { ...flag, beside: { tools: `[${tool}]` } },
  include_reasoning: flag,
  add_generation_prompt: flag,
  continue_final_message: { ...flag, beside: { add_generation_prompt: "false" } },
  chat_template: {
    right: ["null", '"{% for m in messages %}{{ m.content }}{% endfor %}"'],
    hostile: [...text.hostile, ...grammar.templates, ...grammar.longTemplates],
  },
  chat_template_kwargs: object(
    ['{"enable_thinking":false}'],
    ['{"messages":[]}', '{"tools":1}', '{"raise_exception":null}', '{"range":1e9}'],
  ),
};

const ignored = [
  ...["user", "store", "metadata", "service_tier", "safety_identifier", "prompt_cache_key"],
  ...["prompt_cache_retention", "prompt_cache_options", "reasoning_effort", "verbosity"],
];

/** Of `/kv_fill`. */
const fills: Readonly<Record<string, FieldValues>> = {
  prompt_token_ids: ids("[5,6,7]"),
  reused_tokens: integer("0", "16"),
  source: { right: ['{"host":"127.0.0.1","port":9}'], hostile: kvSources },
  "source.host": {
    ...{ right: ['"127.0.0.1"'], hostile: text.hostile },
    around: '{"host":$,"port":9}',
  },
  "source.port": { ...integer("1", "9"), around: '{"host":"127.0.0.1","port":$}' },
  deadline_ms: integer("1", "500"),
};

const textValues: Family = {
  right: ['"a cache"', '{"text":"a cache"}'],
  hostile: [...text.hostile, '{"text":1}', '{"text":"a","b":1}', '{"texts":"a"}'],
};
const textLists: Family = list(
  '"A cache"',
  ['["A cache","A mutex"]', '[{"text":"A cache"},"A mutex"]'],
  [...family.strangeTextLists, '[{"text":1}]', '["a",1]'],
);

/** Of the routes that score pairs. */
const scoring: Readonly<Record<string, FieldValues>> = {
  query: textValues,
  "query.text": { ...text, around: '{"text":$}' },
  documents: textLists,
  "documents[].text": { ...text, around: '[{"text":$},"A mutex"]' },
  text_1: textValues,
  "text_1.text": { ...text, around: '{"text":$}' },
  "text_1[].text": { ...text, around: '[{"text":$},"A mutex"]' },
  text_2: textLists,
  "text_2.text": { ...text, around: '{"text":$}' },
  "text_2[].text": { ...text, around: '[{"text":$},"A mutex"]' },
  top_n: integer("1", "0", "5"),
  return_documents: flag,
  use_activation: flag,
  truncation: anything,
};

const refused = [
  ...["logprob_token_ids", "repetition_detection", "thinking_token_budget"],
  ...["prompt_embeds", "kv_transfer_params", "ec_transfer_params", "vllm_xargs", "audio"],
  ...["functions", "function_call", "moderation", "web_search_options"],
  ...["media_io_kwargs", "mm_processor_kwargs", "rank_fields", "max_chunks_per_doc"],
  "max_tokens_per_doc",
];

/** By a field's path: `stream_options.include_usage`. */
export const FIELD_VALUES: Readonly<Record<string, FieldValues>> = {
  ...sampling,
  ...structure,
  ...delivery,
  ...moved,
  ...fills,
  ...scoring,
  ...conversation,
  ...Object.fromEntries(ignored.map((name) => [name, anything])),
  ...Object.fromEntries(refused.map((name) => [name, unsupported()])),
  prompt,
  input: prompt,
  tokens: ids("[5,6]", "[]"),
  suffix: unsupported('""'),
  best_of: unsupported("1"),
  logprobs: integer("1", "true", "5"),
  top_logprobs: { ...integer("2", "0"), beside: { logprobs: "true" } },
  max_completion_tokens: integer("2", "5"),
  modalities: list('"text"', ['["text"]']),
  add_special_tokens: { ...flag, right: ["false"] },
  encoding_format: word('"float"', '"base64"'),
  dimensions: integer("8", "384"),
  return_token_strs: flag,
};
