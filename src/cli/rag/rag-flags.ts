/** Flags that the subcommands of `perigee rag` have in common. */
import type { Command } from "commander";
import {
  AskSettings,
  CORPUS_DEFAULT,
  EMBEDDER_DEFAULT,
  IngestSettings,
  Rag,
  type RagOptions,
  SearchSettings,
} from "#rag";
import { SchemaFlags } from "../flags.ts";

/** Where corpora are kept unless a flag says otherwise, below the working folder. */
export const STORE_DEFAULT = ".perigee/rag";

/** Values of the common flags. */
export interface RagFlags extends Readonly<Record<string, unknown>> {
  readonly corpus: string;
  readonly store: string;
  readonly embedder: string;
  readonly reranker?: string;
  readonly json?: boolean;
}

/** How documents are read, cut and stored. */
export const ingestFlags: SchemaFlags = new SchemaFlags(IngestSettings);
/** How is searched. */
export const searchFlags: SchemaFlags = new SchemaFlags(SearchSettings);
/** How is searched for an answer: its number of sources is a flag of its own. */
export const askSearchFlags: SchemaFlags = new SchemaFlags(SearchSettings, {
  rename: { limit: null },
});
/** How questions are answered. */
export const askFlags: SchemaFlags = new SchemaFlags(AskSettings);

/** `--store` and, unless all corpora are meant, `--corpus`. */
export function addPlaceFlags(command: Command): Command {
  return command
    .option("--corpus <name>", "Name of the corpus: letters, digits, _ and -.", CORPUS_DEFAULT)
    .option(
      "--store <where>",
      "Where corpora are kept: a folder, which is made where there is none, or the address of a " +
        "Milvus server (http://…).",
      STORE_DEFAULT,
    );
}

/** `--embedder`. */
export function addEmbedderFlag(command: Command): Command {
  return command.option(
    "--embedder <model>",
    "What makes vectors of texts: the name of a bundled model, a directory, a .gguf file or the " +
      "Hugging Face id of a downloaded model; a corpus keeps the one that it was made with.",
    EMBEDDER_DEFAULT,
  );
}

/** `--reranker`. */
export function addRerankerFlag(command: Command): Command {
  return command.option(
    "--reranker <model>",
    "A cross-encoder that reads the chunks that were found together with the question, and " +
      "orders them: a directory or the Hugging Face id of a downloaded model. (default: none)",
  );
}

/**
 * The corpora that the flags name; opened models are closed with it. A folder is made where there
 * is none only with `create`.
 */
export function openRag(
  { store, embedder = EMBEDDER_DEFAULT, reranker }: Partial<RagFlags>,
  more: Pick<RagOptions, "llm" | "create"> = {},
): Promise<Rag> {
  const create = more.create ?? false;
  const parts = { embedder, reranker: reranker ?? null, ...more, create };
  return Rag.open({ store: store ?? STORE_DEFAULT, ...parts });
}
