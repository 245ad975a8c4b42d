/** Short names of models that are known to run, as other tools write them: `qwen2.5:0.5b`. */

/** Family, then size: each the repository with the weights for chats. */
const SHORT_NAMES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  smollm2: {
    "135m": "HuggingFaceTB/SmolLM2-135M-Instruct",
    "360m": "HuggingFaceTB/SmolLM2-360M-Instruct",
    "1.7b": "HuggingFaceTB/SmolLM2-1.7B-Instruct",
  },
  "qwen2.5": {
    "0.5b": "Qwen/Qwen2.5-0.5B-Instruct",
    "1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "3b": "Qwen/Qwen2.5-3B-Instruct",
    "7b": "Qwen/Qwen2.5-7B-Instruct",
    "14b": "Qwen/Qwen2.5-14B-Instruct",
    "32b": "Qwen/Qwen2.5-32B-Instruct",
  },
  "qwen2.5-coder": {
    "0.5b": "Qwen/Qwen2.5-Coder-0.5B-Instruct",
    "1.5b": "Qwen/Qwen2.5-Coder-1.5B-Instruct",
    "7b": "Qwen/Qwen2.5-Coder-7B-Instruct",
  },
  qwen3: {
    "0.6b": "Qwen/Qwen3-0.6B",
    "1.7b": "Qwen/Qwen3-1.7B",
    "4b": "Qwen/Qwen3-4B",
    "8b": "Qwen/Qwen3-8B",
    "14b": "Qwen/Qwen3-14B",
    "30b-a3b": "Qwen/Qwen3-30B-A3B",
    "32b": "Qwen/Qwen3-32B",
  },
  "llama3.2": {
    "1b": "meta-llama/Llama-3.2-1B-Instruct",
    "3b": "meta-llama/Llama-3.2-3B-Instruct",
  },
  "llama3.1": {
    "8b": "meta-llama/Llama-3.1-8B-Instruct",
    "70b": "meta-llama/Llama-3.1-70B-Instruct",
  },
  tinyllama: { "1.1b": "TinyLlama/TinyLlama-1.1B-Chat-v1.0" },
  mistral: { "7b": "mistralai/Mistral-7B-Instruct-v0.3" },
  mixtral: { "8x7b": "mistralai/Mixtral-8x7B-Instruct-v0.1" },
  phi3: { "3.8b": "microsoft/Phi-3-mini-4k-instruct" },
  gemma2: {
    "2b": "google/gemma-2-2b-it",
    "9b": "google/gemma-2-9b-it",
    "27b": "google/gemma-2-27b-it",
  },
  "all-minilm": { "22m": "sentence-transformers/all-MiniLM-L6-v2" },
  "nomic-embed-text": { "137m": "nomic-ai/nomic-embed-text-v1.5" },
};

/** The form of a short name; a repository of the hub has no colon. */
const FORM = /^([a-z][a-z0-9.-]*):([a-z0-9.-]+)$/;

/** All short names, each with its ORG/NAME. */
export function shortNames(): ReadonlyMap<string, string> {
  const rows = Object.entries(SHORT_NAMES).flatMap(([family, sizes]) =>
    Object.entries(sizes).map(([size, name]): [string, string] => [`${family}:${size}`, name]),
  );
  return new Map(rows);
}

/** ORG/NAME of a short name, in any case; null: it is none of ours. */
export function longName(model: string): string | null {
  return shortNames().get(model.toLowerCase()) ?? null;
}

/**
 * What is known of a text in the form of a short name that is none: the sizes of its family, or all
 * families; null: it has another form.
 */
export function shortNameHint(model: string): string | null {
  const [, family = "", size] = FORM.exec(model.toLowerCase()) ?? [];
  if (size === undefined) return null;
  const sizes = Object.keys(SHORT_NAMES[family] ?? {});
  if (sizes.length > 0) return `${family} has ${sizes.join(", ")}`;
  return `short names begin with ${Object.keys(SHORT_NAMES).join(", ")}`;
}
