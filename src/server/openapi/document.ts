/** The OpenAPI document: from the schemas by which the routes check what they are sent. */
import { z } from "zod";
import { anyObject } from "../openai/bounded.ts";
import { responseInput } from "../openai/responses/input-items.ts";
import { searchFilter } from "../openai/search-filter.ts";
import type { AnswerKind, ErrorForm, RouteDoc } from "./route-doc.ts";

/** What the document is made from. */
export interface DocumentParts {
  readonly version: string;
  readonly needsKey: boolean;
  /** Paths that need none in any case. */
  readonly openPaths: ReadonlySet<string>;
  readonly routes: readonly RouteDoc[];
}

type Json = Readonly<Record<string, unknown>>;

const ERROR = {
  type: "object",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string" },
        type: { type: "string" },
        param: { type: ["string", "null"] },
        code: { type: ["string", "null"] },
      },
    },
  },
};

const ANTHROPIC_ERROR = {
  type: "object",
  required: ["type", "error", "request_id"],
  properties: {
    type: { const: "error" },
    error: {
      type: "object",
      required: ["type", "message"],
      properties: { type: { type: "string" }, message: { type: "string" } },
    },
    request_id: { type: "string" },
  },
};

const OLLAMA_ERROR = {
  type: "object",
  required: ["error"],
  properties: { error: { type: "string" } },
};

/** By the form: what it is called, whose it is, and how it reads. */
const ERRORS: Readonly<Record<ErrorForm, readonly [string, string, Json]>> = {
  openai: ["Error", "OpenAI's", ERROR],
  anthropic: ["AnthropicError", "Anthropic's", ANTHROPIC_ERROR],
  ollama: ["OllamaError", "Ollama's", OLLAMA_ERROR],
};

const FILTER = {
  description:
    "A comparison {type, key, value} with type eq, ne, gt, gte, lt, lte, in or nin, or several " +
    "of them {type, filters} with type and or or.",
  type: "object",
  required: ["type"],
  properties: {
    type: { enum: ["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "and", "or"] },
    key: { type: "string" },
    value: {},
    filters: { type: "array", items: { $ref: "#/components/schemas/SearchFilter" } },
  },
};

/** Schemas that check by code. */
const WRITTEN: ReadonlyMap<unknown, Json> = new Map<unknown, Json>([
  [anyObject, { type: "object" }],
  [searchFilter, { $ref: "#/components/schemas/SearchFilter" }],
]);

/** What is taken beside what a schema says, since it is read as that. */
const ALSO: ReadonlyMap<unknown, Json> = new Map<unknown, Json>([
  [responseInput, { type: "string" }],
]);

/** The document, version 3.1 of OpenAPI. */
export function openApiDocument({ version, needsKey, openPaths, routes }: DocumentParts): Json {
  const paths: Record<string, Record<string, unknown>> = {};
  const schemas: Record<string, unknown> = { SearchFilter: FILTER };
  const errors: Record<string, unknown> = {};
  for (const [name, whose, schema] of Object.values(ERRORS)) {
    schemas[name] = schema;
    const content = { "application/json": { schema: { $ref: `#/components/schemas/${name}` } } };
    errors[name] = { description: `What is wrong, in ${whose} form`, content };
  }
  for (const route of routes) {
    const path = pathOf(route.path);
    paths[path] ??= {};
    const isOpen = openPaths.has(route.path);
    paths[path][route.method] = operation(route, needsKey && isOpen);
    if (route.body !== undefined) schemas[route.body.name] ??= jsonSchema(route.body.schema);
  }
  return {
    openapi: "3.1.1",
    info: {
      title: "Perigee",
      version,
      description:
        "OpenAI's API with extensions of vLLM's and of our own, and routes of operation.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    ...(needsKey && { security: [{ key: [] }, { ownHeader: [] }] }),
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas,
      responses: errors,
      securitySchemes: {
        key: { type: "http", scheme: "bearer" },
        ownHeader: { type: "apiKey", in: "header", name: "x-api-key" },
      },
    },
  };
}

function operation(route: RouteDoc, isOpenBesideKeys: boolean): Json {
  const { method, path, tag, summary, answer, errors = "openai" } = route;
  const [errorName] = ERRORS[errors];
  const body = bodyOf(route);
  const parameters = [...pathParameters(path), ...queryParameters(route.query)];
  return {
    operationId: operationId(method, path),
    ...{ tags: [tag], summary },
    ...(isOpenBesideKeys && { security: [] }),
    ...(parameters.length > 0 && { parameters }),
    ...(body !== null && { requestBody: body }),
    responses: {
      200: ANSWERS[answer],
      default: { $ref: `#/components/responses/${errorName}` },
    },
  };
}

function operationId(method: string, path: string): string {
  const words = pathOf(path).match(/[A-Za-z0-9]+/g) ?? ["root"];
  return [method, ...words].join("_");
}

/** `/v1/responses/:response` as `/v1/responses/{response}`. */
export function pathOf(path: string): string {
  return path.replace(/:(\w+)/g, "{$1}").replace("/models/*", "/models/{model}");
}

function pathParameters(path: string): Json[] {
  const names = [...pathOf(path).matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return names.map((name) => ({
    ...{ name, in: "path", required: true, schema: { type: "string" } },
  }));
}

function queryParameters(query: z.ZodType | undefined): Json[] {
  if (query === undefined) return [];
  const { properties = {}, required = [] } = jsonSchema(query) as {
    properties?: Record<string, unknown>;
    required?: readonly string[];
  };
  return Object.entries(properties).map(([name, schema]) => ({
    ...{ name, in: "query", schema },
    ...(required.includes(name) && { required: true }),
  }));
}

function bodyOf({ body, takesForm }: RouteDoc): Json | null {
  if (takesForm === true) {
    const properties = { file: { type: "string", format: "binary" }, purpose: { type: "string" } };
    const schema = { type: "object", required: ["file", "purpose"], properties };
    return { required: true, content: { "multipart/form-data": { schema } } };
  }
  if (body === undefined) return null;
  const schema = { $ref: `#/components/schemas/${body.name}` };
  return { required: true, content: { "application/json": { schema } } };
}

const JSON_ANSWER = { "application/json": { schema: { type: "object" } } };
const EVENTS = { "text/event-stream": { schema: { type: "string" } } };
const LINES = { "application/x-ndjson": { schema: { type: "string" } } };
const TEXT = { "text/plain": { schema: { type: "string" } } };
const HTML = { "text/html": { schema: { type: "string" } } };
const BYTES = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };

const ANSWERS: Readonly<Record<AnswerKind, Json>> = {
  json: { description: "The answer", content: JSON_ANSWER },
  streams: {
    description: "The answer; with `stream: true` its events",
    content: { ...JSON_ANSWER, ...EVENTS },
  },
  lines: {
    description: "The answer, a JSON object a line; with `stream: false` one alone",
    content: { ...JSON_ANSWER, ...LINES },
  },
  events: { description: "Events, until the client leaves", content: EVENTS },
  text: { description: "The answer", content: TEXT },
  html: { description: "The page", content: HTML },
  bytes: { description: "The content", content: BYTES },
  empty: { description: "It is so" },
};

function jsonSchema(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, {
    ...{ io: "input", unrepresentable: "any", reused: "inline" },
    override: ({ zodSchema, jsonSchema: made }) => {
      if (zodSchema instanceof z.ZodObject) Object.assign(made, requiredOf(zodSchema));
      const written = WRITTEN.get(zodSchema);
      if (written !== undefined) Object.assign(made, written);
      const also = ALSO.get(zodSchema);
      if (also !== undefined) replace(made, { anyOf: [also, { ...made }] });
    },
  });
  return rest;
}

/** Fields that are read before they are checked count as optional for the library. */
function requiredOf({ shape }: z.ZodObject): Json {
  const fields = Object.entries<z.ZodType>(shape);
  const required = fields.filter(([, field]) => !field.safeParse(undefined).success);
  return required.length === 0 ? {} : { required: required.map(([name]) => name) };
}

function replace(target: Record<string, unknown>, content: Json): void {
  for (const name of Object.keys(target)) delete target[name];
  Object.assign(target, content);
}
