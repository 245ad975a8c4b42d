import type { Command } from "commander";
import { EngineOptions, LLM, type LoadOptions } from "#engine";
import { SchemaFlags } from "./flags.ts";
import { bundledModel } from "./package-root.ts";

/** Flags of everything that loads a model. */
const engineFlags = new SchemaFlags(EngineOptions, {
  rename: {
    "kvCache.poolBytes": "kv-pool-bytes",
    "kvCache.dtype": "kv-cache-dtype",
    "scheduler.policy": "scheduling-policy",
    "hub.revision": "revision",
    "hub.token": "hub-token",
    "hub.cacheDir": "cache-dir",
    "hub.url": "hub-url",
    servedName: null,
  },
});

export function addEngineFlags(command: Command): void {
  engineFlags.addTo(command, "Model and engine:");
}

type Values = Readonly<Record<string, unknown>>;

export interface LoadRequest {
  /** A directory, a file, a hub id, or nothing for the bundled model. */
  readonly model: string | undefined;
  readonly values: Values;
  readonly servedName?: string;
}

/** Loads the model as flags and environment say, with warnings on stderr. */
export async function loadModel({ model, values, servedName }: LoadRequest): Promise<LLM> {
  engineFlags.parse(values);
  const options: LoadOptions = {
    ...engineFlags.collect(values),
    ...(servedName === undefined ? {} : { servedName }),
  };
  return LLM.load(model ?? bundledModel, {
    ...options,
    hub: { ...hubFromEnvironment(), ...options.hub },
    onWarning: (message: string) => process.stderr.write(`warning: ${message}\n`),
  });
}

/** The variables that Hugging Face's own tools read. */
export function hubFromEnvironment(): { token?: string; cacheDir?: string; url?: string } {
  const { HF_TOKEN, HF_HUB_CACHE, HF_HOME, HF_ENDPOINT } = process.env;
  const cacheDir = HF_HUB_CACHE ?? (HF_HOME === undefined ? undefined : `${HF_HOME}/hub`);
  return {
    ...(HF_TOKEN === undefined ? {} : { token: HF_TOKEN }),
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...(HF_ENDPOINT === undefined ? {} : { url: HF_ENDPOINT }),
  };
}
