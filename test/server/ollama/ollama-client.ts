import { Ollama } from "ollama";

/** Ollama's own client for a server. */
export function ollamaClient({ server: { url } }: { readonly server: { url: string } }): Ollama {
  return new Ollama({ host: url });
}
