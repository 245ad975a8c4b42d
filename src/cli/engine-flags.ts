import type { Command } from "commander";
import { EngineOptions, LLM, type LlmOptions, type LoadOptions, type LoadProgress } from "#engine";
import { binarySize } from "./cache-sizes.ts";
import { cudaFromEnvironment } from "./cuda-environment.ts";
import { flagOption } from "./flag-option.ts";
import { type FlagValues, inFlags, SchemaFlags } from "./flags.ts";
import { hubFromEnvironment } from "./hub-environment.ts";
import { LoadingBar } from "./loading-bar.ts";
import { bundledModel } from "./package-root.ts";
import { isHubOffline, presentModel } from "./present-model.ts";
import { plainText } from "./terminal-text.ts";

/** Flags of commands that load a model. */
export const engineFlags: SchemaFlags = new SchemaFlags(EngineOptions, {
  prefixed: ["speculative", "pipeline", "grammar"],
  rename: {
    "kvCache.poolBytes": "kv-pool-bytes",
    "kvCache.dtype": "kv-cache-dtype",
    "kvCache.eventBufferMax": "kv-event-buffer-max",
    "scheduler.policy": "scheduling-policy",
    "speculative.kind": "speculative",
    "hub.revision": "revision",
    "hub.cacheDir": "cache-dir",
    servedName: null,
    // A worker's own flags set it.
    mock: null,
    kvTransfer: null,
    // CUDA's environment variables set these.
    "cuda.home": null,
    "cuda.pythonRoots": null,
    "cuda.cacheFolder": null,
    "cuda.graphs": "cuda-graphs",
  },
});

const ENGINE_HEADING = "Model and engine:";
const OFFLINE_HELP =
  "Download nothing: a model must be on this machine. HF_HUB_OFFLINE=1 does the same.";

/**
 * The model argument, and its flags. `draftsMs`: as the command gives it to `loadModel`, so that
 * the help tells whether tokens are drafted.
 */
export function addEngineFlags(command: Command, draftsMs: number | null = null): void {
  command.argument(
    "[model]",
    "A directory, a .gguf file, the Hugging Face id of a model, which is downloaded where it is " +
      "not here, or a short name such as qwen2.5:0.5b. (default: the bundled model)",
  );
  const drafts = { "speculative.kind": "auto", "speculative.measureMs": draftsMs };
  engineFlags.addTo(command, ENGINE_HEADING, draftsMs === null ? {} : drafts);
  const offline = { type: "boolean", default: false, description: OFFLINE_HELP };
  command.addOption(flagOption("offline", offline).helpGroup(ENGINE_HEADING));
}

export interface LoadRequest {
  /** A directory, a file, a hub id, or nothing for the bundled model. */
  readonly model: string | undefined;
  readonly values: FlagValues;
  readonly servedName?: string;
  /** Off: no warning if the model has no tokenizer. */
  readonly needsText?: boolean;
  /** Receives warnings. Default: a line each on standard error. */
  readonly warn?: (message: string) => void;
  /** Receives what is downloaded. Default: a line each on standard error. */
  readonly say?: (message: string) => void;
  /**
   * Draft by `auto` where no flag says how, with so many ms of loading to measure what it costs.
   * Default: null, nothing is drafted then.
   */
  readonly draftsMs?: number | null;
  /** How keys and values travel between workers. Default: null, they do not. */
  readonly kvTransfer?: LoadOptions["kvTransfer"];
  /** Makes the model of the options. Default: `LLM.load`. */
  readonly load?: (place: string, options: LlmOptions) => Promise<LLM>;
}

/** Matches the warning for a checkpoint without a tokenizer. */
const WITHOUT_WORDS = /prompts must be token ids/;

/**
 * Loads the model that flags and environment specify, with warnings on standard error. Throws the
 * errors of `LLM.load`, with flag names.
 */
export async function loadModel(request: LoadRequest): Promise<LLM> {
  const { model, values, servedName, needsText = true, warn = warnOnStandardError } = request;
  const { load = LLM.load, draftsMs = null, kvTransfer = null, say = sayOnStandardError } = request;
  engineFlags.check(values);
  const given: LoadOptions = engineFlags.collect(values);
  const drafts = draftsMs === null ? {} : { kind: "auto" as const, measureMs: draftsMs };
  const options: LoadOptions = {
    ...given,
    speculative: { ...drafts, ...given.speculative },
    ...(kvTransfer !== null && { kvTransfer }),
    ...(servedName === undefined ? {} : { servedName }),
  };
  const { cacheDir = null } = hubFromEnvironment();
  const onWarning = (message: string) => {
    if (!needsText && WITHOUT_WORDS.test(message)) return;
    warn(engineFlags.withFlags(message));
  };
  const progress = new LoadingBar();
  const onProgress = (how: LoadProgress) => progress.show(how);
  try {
    const hub = { cacheDir, ...options.hub };
    const cuda = { ...cudaFromEnvironment(), ...options.cuda };
    const place = model ?? bundledModel;
    await presentModel(place, {
      ...(hub.revision === undefined ? {} : { revision: hub.revision }),
      ...(typeof hub.cacheDir === "string" && { cacheDir: hub.cacheDir }),
      ...{ offline: values.offline === true || isHubOffline(process.env), say },
    });
    const llm = await load(place, { ...options, hub, cuda, onWarning, onProgress });
    progress.stop();
    if (values.verbose === true) tellPhases(llm);
    return llm;
  } catch (thrown) {
    throw inFlags(thrown, engineFlags);
  } finally {
    progress.stop();
  }
}

function sayOnStandardError(message: string): void {
  process.stderr.write(`perigee: ${plainText(message)}\n`);
}

function warnOnStandardError(message: string): void {
  process.stderr.write(`warning: ${plainText(message)}\n`);
}

/** `perigee: loading: files 0.01 s; device 0.42 s; weights 3.10 s, 15.0 GiB; …` */
function tellPhases({ loadPhases }: LLM): void {
  const parts = loadPhases.map(({ name, seconds, bytes }) => {
    const size = bytes === 0 ? "" : `, ${binarySize(bytes)}`;
    return `${name} ${seconds.toFixed(2)} s${size}`;
  });
  const sinceStart = `${(performance.now() / 1000).toFixed(2)} s since the process began`;
  process.stderr.write(`perigee: loading: ${[...parts, sinceStart].join("; ")}\n`);
}
