import type { Command } from "commander";
import { EngineOptions, LLM, type LoadOptions } from "#engine";
import { type FlagValues, SchemaFlags } from "./flags.ts";
import { hubFromEnvironment } from "./hub-environment.ts";
import { bundledModel } from "./package-root.ts";

/** Flags of everything that loads a model. */
const engineFlags = new SchemaFlags(EngineOptions, {
  rename: {
    "kvCache.poolBytes": "kv-pool-bytes",
    "kvCache.dtype": "kv-cache-dtype",
    "scheduler.policy": "scheduling-policy",
    "hub.revision": "revision",
    "hub.token": null,
    "hub.cacheDir": "cache-dir",
    "hub.url": null,
    servedName: null,
  },
});

/** The model argument, and its flags. */
export function addEngineFlags(command: Command): void {
  command.argument(
    "[model]",
    "A directory, a .gguf file or a Hugging Face id that was pulled. (default: the bundled model)",
  );
  engineFlags.addTo(command, "Model and engine:");
}

export interface LoadRequest {
  /** A directory, a file, a hub id, or nothing for the bundled model. */
  readonly model: string | undefined;
  readonly values: FlagValues;
  readonly servedName?: string;
}

/** Loads the model as flags and environment say, with warnings on standard error. */
export async function loadModel({ model, values, servedName }: LoadRequest): Promise<LLM> {
  engineFlags.check(values);
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
