/** Files, vector stores and `file_search` of `perigee serve`: their flags, and what they need. */
import { join } from "node:path";
import type { Command } from "commander";
import { EngineError } from "#base";
import type { LLM } from "#engine";
import {
  type Embedder,
  LocalReranker,
  openEmbedder,
  openStore,
  RagExtension,
  type RagLimits,
  RagServing,
  type Reranker,
} from "#rag";
import { type FlagValues, inFlags, SchemaFlags } from "./flags.ts";
import type { ServedBeside } from "./serving.ts";
import type { StartLines } from "./start-lines.ts";

/** Flags of the settings, each with `rag-` before its name. */
export const ragServeFlags: SchemaFlags = new SchemaFlags(RagServing, {
  rename: {
    store: "rag-store",
    embedder: "rag-embedder",
    embedderModel: "rag-embedder-model",
    embedderDevice: "rag-embedder-device",
    reranker: "rag-reranker",
    state: "rag-state",
    fileBytesMax: "rag-file-bytes-max",
    totalBytesMax: "rag-total-bytes-max",
    filesMax: "rag-files-max",
    storesMax: "rag-stores-max",
    ingestJobs: "rag-ingest-jobs",
  },
});

const HEADING = "Files and vector stores:";
/** The folder of files and records inside of a store's folder. */
const STATE_FOLDER = "openai";
/** Of a store that is no folder. */
const ADDRESS = /^[a-z][a-z0-9+.-]*:\/\//i;

export function addRagServeFlags(command: Command): void {
  ragServeFlags.addTo(command, HEADING);
}

/** Opens store and embedder where the flags name a store; null: they name none. */
export async function openRagBeside(
  flags: FlagValues,
  { say, warn }: StartLines,
): Promise<ServedBeside | null> {
  ragServeFlags.check(flags);
  const settings = RagServing.parse(ragServeFlags.collect(flags));
  const { store: where, state } = settings;
  if (where === null) return null;
  if (state === null && ADDRESS.test(where)) {
    const wanted = `at ${where} needs --rag-state DIR, a folder for files and records`;
    throw new EngineError("INVALID_ARGUMENT", `Cannot use --rag-store: a store ${wanted}`, {
      param: "--rag-store",
    });
  }
  const store = await openStore(where);
  let models: Models | null = null;
  const close = async () => {
    await models?.reranker?.close();
    await models?.embedder.close();
    await store.close();
  };
  try {
    models = await openModels(settings);
    const folder = state ?? join(where, STATE_FOLDER);
    const parts = { store, ...models, limits: limitsOf(settings), warn, folder };
    say(`files and vector stores in ${store.info.location}, vectors by ${models.embedder.name}`);
    return {
      extend: async (llm: LLM) => await RagExtension.open({ ...parts, llm }),
      [Symbol.asyncDispose]: close,
    };
  } catch (error) {
    await close();
    throw inFlags(error, ragServeFlags);
  }
}

interface Models {
  readonly embedder: Embedder;
  readonly reranker: Reranker | null;
}

async function openModels(settings: RagServing): Promise<Models> {
  const { embedder: what, embedderModel: model } = settings;
  const { embedderDevice: device, reranker: wanted } = settings;
  const remote = model === null ? {} : { remote: { model } };
  const embedder = await openEmbedder(what, { engine: { device }, ...remote });
  try {
    const reranker = wanted === null ? null : await LocalReranker.open(wanted, { device });
    return { embedder, reranker };
  } catch (error) {
    await embedder.close();
    throw error;
  }
}

function limitsOf(settings: RagServing): RagLimits {
  const { fileBytesMax, totalBytesMax, filesMax, storesMax, ingestJobs } = settings;
  return { fileBytesMax, totalBytesMax, filesMax, storesMax, ingestJobs };
}
