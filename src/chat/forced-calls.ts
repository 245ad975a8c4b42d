/**
 * Structural tags (xgrammar's form, which `structuralTag` takes) that make an output consist of
 * calls, in a family's own notation and with arguments of the tools' schemas.
 */
import { isPlainObject } from "#base";
import { argumentNames, argumentSchema, isTextual } from "./argument-schema.ts";
import type { JsonSchema } from "./output-part.ts";

/** A part of a structural tag. */
export type TagFormat = Readonly<Record<string, unknown>>;

/** A tool that may be called. */
export interface CallableTool {
  readonly name: string;
  /** Null: it takes no arguments. */
  readonly parameters: JsonSchema | null;
}

/** A list of calls: what stands around it, and between two of them. */
export interface CallSequence {
  readonly before?: string;
  readonly separator: string;
  readonly behind?: string;
}

/** One call of a tool, as a tag. */
export type CallTag = (tool: CallableTool) => TagFormat;

/** At least one call of the tools, or exactly one. */
export function callSequence(
  tools: readonly CallableTool[],
  tagOf: CallTag,
  { onlyOne, before, separator, behind }: CallSequence & { readonly onlyOne: boolean },
): TagFormat {
  const calls = {
    type: "tags_with_separator",
    tags: tools.map(tagOf),
    separator,
    at_least_one: true,
    stop_after_first: onlyOne,
  };
  if (before === undefined && behind === undefined) return calls;
  return { type: "sequence", elements: [constant(before ?? ""), calls, constant(behind ?? "")] };
}

/** A call whose arguments are one JSON object. */
export function jsonCall(begin: (name: string) => string, end: string): CallTag {
  return ({ name, parameters }) => ({
    type: "tag",
    begin: begin(name),
    content: { type: "json_schema", json_schema: parameters ?? NO_ARGUMENTS },
    end,
  });
}

/** `<function=name>` with parameters: texts without quotes, other values as JSON. */
export const markupCall: CallTag = ({ name, parameters }) => {
  const values = argumentNames(parameters).map((key) => {
    const value = {
      type: "tag",
      begin: `<parameter=${key}>\n`,
      content: markupValue(parameters, key),
      end: "\n</parameter>\n",
    };
    return isRequired(parameters, key) ? value : optional(value);
  });
  return {
    type: "tag",
    begin: `<tool_call>\n<function=${name}>\n`,
    content: values.length === 0 ? constant("") : { type: "sequence", elements: values },
    end: "</function>\n</tool_call>",
  };
};

function markupValue(parameters: JsonSchema | null, key: string): TagFormat {
  const schema = argumentSchema(parameters, key);
  if (!isTextual(schema)) return valueFormat(parameters, key);
  const values: unknown = schema !== null && "const" in schema ? [schema.const] : schema?.enum;
  if (!Array.isArray(values)) return { type: "any_text" };
  return { type: "or", elements: values.map((value) => constant(String(value))) };
}

/** More optional arguments without a required one are written as `**{…}`. */
const LEADING_OPTIONALS_MAX = 6;

/** `name(a=…, b=…)` with values as JSON; arguments in the schema's order, required ones first. */
export const pythonCall: CallTag = ({ name, parameters }) => ({
  type: "tag",
  begin: `${name}(`,
  content: pythonArguments(parameters),
  end: ")",
});

function pythonArguments(parameters: JsonSchema | null): TagFormat {
  const names = argumentNames(parameters);
  const required = names.filter((key) => isRequired(parameters, key));
  const others = names.filter((key) => !required.includes(key));
  if (names.some((key) => !/^[A-Za-z_]\w*$/.test(key))) return spreadArguments(parameters);
  if (parameters !== null && names.length === 0 && !isClosed(parameters)) {
    return spreadArguments(parameters);
  }
  if (names.length === 0) return constant("");
  const one = (key: string, comma: string): TagFormat => ({
    type: "sequence",
    elements: [constant(`${comma}${key}=`), valueFormat(parameters, key)],
  });
  const more = others.map((key) => optional(one(key, ", ")));
  if (required.length > 0) {
    const first = required.map((key, place) => one(key, place === 0 ? "" : ", "));
    return { type: "sequence", elements: [...first, ...more] };
  }
  if (others.length > LEADING_OPTIONALS_MAX) return spreadArguments(parameters);
  const starts = others.map((key, place) => ({
    type: "sequence",
    elements: [one(key, ""), ...more.slice(place + 1)],
  }));
  return { type: "or", elements: [...starts, constant("")] };
}

function spreadArguments(parameters: JsonSchema | null): TagFormat {
  const all = { type: "json_schema", json_schema: parameters ?? NO_ARGUMENTS };
  return { type: "sequence", elements: [constant("**"), all] };
}

const NO_ARGUMENTS: JsonSchema = { type: "object", properties: {}, additionalProperties: false };

/** Nothing but its (absent) properties: an object schema without any. */
function isClosed(schema: JsonSchema): boolean {
  const keys = Object.keys(schema).filter((key) => key !== "type" && key !== "description");
  return keys.every((key) => ["properties", "required", "additionalProperties"].includes(key));
}

function isRequired(parameters: JsonSchema | null, key: string): boolean {
  return Array.isArray(parameters?.required) && parameters.required.includes(key);
}

/** The value of one argument as JSON; references go to the whole schema's definitions. */
function valueFormat(parameters: JsonSchema | null, key: string): TagFormat {
  const properties = parameters?.properties;
  const own: unknown = isPlainObject(properties) ? properties[key] : true;
  if (!isPlainObject(own)) return { type: "json_schema", json_schema: own };
  const { $defs, definitions } = parameters ?? {};
  const shared = {
    ...($defs === undefined ? {} : { $defs }),
    ...(definitions === undefined ? {} : { definitions }),
  };
  return { type: "json_schema", json_schema: { ...shared, ...own } };
}

function optional(format: TagFormat): TagFormat {
  return { type: "or", elements: [format, constant("")] };
}

function constant(value: string): TagFormat {
  return { type: "const_string", value };
}
