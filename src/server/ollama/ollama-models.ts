/** What Ollama's clients ask of a server before they use it: its version and its models. */
import { createHash } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { z } from "zod";
import type { ModelInfo } from "#engine";
import type { ServerContext } from "../context.ts";
import { HttpError } from "../http-errors.ts";
import { parseRequest } from "../openai/parse-request.ts";
import { OLLAMA } from "./ollama-dialect.ts";
import { servedName } from "./ollama-fields.ts";

/** Of the API that the subset follows: clients refuse servers that are older than they need. */
export const OLLAMA_VERSION = "0.12.6";
const BILLION = 1e9;
const MILLION = 1e6;

/** Body of POST /api/show. */
export const OllamaShowRequest = z.strictObject({
  model: z.string().nullish(),
  /** What older clients call it. */
  name: z.string().nullish(),
  verbose: z.boolean().nullish(),
  system: z.string().nullish(),
  template: z.string().nullish(),
  options: z.unknown().optional(),
});

/** Routes that a client of Ollama's uses to manage models: here the server's start decides. */
const MANAGING = ["pull", "push", "create", "copy"] as const;

export function ollamaModelRoutes(app: FastifyInstance, context: ServerContext): void {
  const startedMs = context.nowSeconds() * 1000;
  const config = { dialect: OLLAMA };
  app.get("/api/version", { config }, async () => ({
    version: OLLAMA_VERSION,
    perigee: context.version,
  }));
  app.get("/api/tags", { config }, async () => ({
    models: context.modelNames.map((name) => modelCard(context, name, startedMs)),
  }));
  app.get("/api/ps", { config }, async () => ({
    models: context.modelNames.map((name) => runningCard(context, name, startedMs)),
  }));
  app.post("/api/show", { config }, async ({ body }) => {
    const { model, name } = parseRequest(OllamaShowRequest, body);
    servedName(context, model ?? name ?? "");
    return details(context, startedMs);
  });
  refuseToManage(app, "the server has the model that it was started with");
}

/** Registers the routes that manage models, which say why they do not. */
export function refuseToManage(app: FastifyInstance, why: string): void {
  const config = { dialect: OLLAMA };
  const refuse = (what: string): never => {
    throw new HttpError(
      501,
      "unsupported",
      `Cannot ${what} models: ${why}; start another one: perigee serve MODEL`,
    );
  };
  for (const what of MANAGING) app.post(`/api/${what}`, { config }, async () => refuse(what));
  app.delete("/api/delete", { config }, async () => refuse("delete"));
}

function modelCard({ model: { info } }: ServerContext, name: string, startedMs: number): object {
  return {
    ...{ name, model: name, modified_at: new Date(startedMs).toISOString() },
    size: weightBytes(info),
    digest: digestOf(info),
    details: detailsOf(info),
  };
}

function runningCard(context: ServerContext, name: string, startedMs: number): object {
  const { info } = context.model;
  const isOnGpu = info.device.startsWith("cuda");
  return {
    ...modelCard(context, name, startedMs),
    // It stays as long as the server does.
    expires_at: new Date(FAR_MS).toISOString(),
    size_vram: isOnGpu ? weightBytes(info) : 0,
    context_length: info.contextTokensMax,
  };
}

/** The year 2100. */
const FAR_MS = 4_102_444_800_000;

function details({ model: { info } }: ServerContext, startedMs: number): object {
  const { architecture, parameters, contextTokensMax, hiddenSize, vocabularySize } = info;
  const family = familyOf(info);
  return {
    ...{ license: "", modelfile: "", parameters: "", template: "" },
    details: detailsOf(info),
    model_info: {
      "general.architecture": family,
      "general.basename": architecture,
      "general.parameter_count": parameters,
      [`${family}.context_length`]: contextTokensMax,
      [`${family}.embedding_length`]: hiddenSize,
      [`${family}.vocab_size`]: vocabularySize,
    },
    capabilities: capabilitiesOf(info),
    modified_at: new Date(startedMs).toISOString(),
  };
}

/** Embedding is what encoders are for; decoders give vectors, too, if asked. */
function capabilitiesOf({ kind, hasChatTemplate }: ModelInfo): string[] {
  if (kind === "encoder") return ["embedding"];
  return hasChatTemplate ? ["completion", "tools"] : ["completion"];
}

function detailsOf(info: ModelInfo): object {
  const family = familyOf(info);
  return {
    parent_model: "",
    format: /\.gguf$/i.test(info.name) ? "gguf" : "safetensors",
    family,
    families: [family],
    parameter_size: sizeText(info.parameters),
    quantization_level: info.weightFormat.toUpperCase(),
  };
}

/** `LlamaForCausalLM` as `llama`. */
function familyOf({ architecture }: ModelInfo): string {
  return architecture.replace(/For[A-Z]\w*$|Model$/, "").toLowerCase();
}

function sizeText(parameters: number): string {
  if (parameters >= BILLION) return `${(parameters / BILLION).toFixed(1)}B`;
  return `${(parameters / MILLION).toFixed(1)}M`;
}

/** About: what the formats take for each parameter. */
function weightBytes({ parameters, weightFormat }: ModelInfo): number {
  const bits = Number(/\d+/.exec(weightFormat)?.[0] ?? 16);
  return Math.round((parameters * bits) / 8);
}

/** Changes with weights and arithmetic. */
function digestOf({ name, fingerprint }: ModelInfo): string {
  return createHash("sha256")
    .update(fingerprint ?? name)
    .digest("hex");
}
