import type { ChatTemplate } from "./chat-template.ts";

/** Maximum characters of all cached templates; parsed, they take some hundred times that. */
const CHARACTERS_MAX = 2 ** 18;
/** Added to each template's characters: tiny templates take memory, too. */
const ENTRY_CHARACTERS = 2 ** 10;

/** Parsed templates of requests: an LRU cache with bounded memory. */
export class TemplateCache {
  readonly #parse: (source: string) => ChatTemplate;
  /** In order of last use, oldest first. */
  readonly #templates = new Map<string, ChatTemplate>();
  #characters = 0;

  constructor(parse: (source: string) => ChatTemplate) {
    this.#parse = parse;
  }

  /** The number of cached templates. */
  get size(): number {
    return this.#templates.size;
  }

  /** The parsed template, from the cache if present. Throws the parser's error. */
  get(source: string): ChatTemplate {
    const known = this.#templates.get(source);
    const template = known ?? this.#parse(source);
    if (known === undefined) this.#characters += weightOf(source);
    this.#templates.delete(source);
    this.#templates.set(source, template);
    for (const oldest of this.#templates.keys()) {
      if (this.#characters <= CHARACTERS_MAX) break;
      this.#templates.delete(oldest);
      this.#characters -= weightOf(oldest);
    }
    return template;
  }
}

function weightOf(source: string): number {
  return source.length + ENTRY_CHARACTERS;
}
