import type { EmbedderPrompts } from "./embedder-options.ts";

/**
 * Prompts of models that were trained with them and whose files do not say so, as their authors'
 * pages give them. Names are matched without regard to case and to the organisation.
 */
const KNOWN: readonly (readonly [name: RegExp, prompts: EmbedderPrompts])[] = [
  // The instruct models of that family have prompts of another form, which their users write.
  [
    /^(multilingual-)?e5-(small|base|large)(-v2|-unsupervised)?$/,
    { query: "query: ", document: "passage: " },
  ],
  [
    /^bge-(small|base|large)-en(-v1\.5)?$/,
    { query: "Represent this sentence for searching relevant passages: " },
  ],
  [/^bge-(small|base|large)-zh(-v1\.5)?$/, { query: "为这个句子生成表示以用于检索相关文章：" }],
  [
    /^nomic-embed-text-v1(\.5|-unsupervised)?$/,
    { query: "search_query: ", document: "search_document: " },
  ],
];

/** A snapshot in the hub's cache, whose own name is a commit. */
const SNAPSHOT = /models--(?:[^/\\]+--)?([^/\\]+)[/\\]snapshots[/\\][0-9a-f]+$/;

/** The prompts of a model by the last part of its name or path; null: its name says nothing. */
export function knownPrompts(model: string): EmbedderPrompts | null {
  const path = model.replace(/[\\/]+$/, "");
  const name = (SNAPSHOT.exec(path)?.[1] ?? path.split(/[\\/]/).at(-1) ?? "").toLowerCase();
  return KNOWN.find(([pattern]) => pattern.test(name))?.[1] ?? null;
}
