import type { ChatTemplate } from "./chat-template.ts";

/** Characters of all templates kept; parsed, they take some hundred times that. */
const CHARACTERS_MAX = 2 ** 18;
/** What a template counts beside its characters: tiny ones take memory, too. */
const ENTRY_CHARACTERS = 2 ** 10;

/** Templates that requests bring, parsed: the newest ones, as far as they fit a bounded memory. */
export class TemplateCache {
  readonly #parse: (source: string) => ChatTemplate;
  /** In the order of their last use. */
  readonly #templates = new Map<string, ChatTemplate>();
  #characters = 0;

  constructor(parse: (source: string) => ChatTemplate) {
    this.#parse = parse;
  }

  /** How many templates are kept. */
  get size(): number {
    return this.#templates.size;
  }

  /** Throws what parsing does. */
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
