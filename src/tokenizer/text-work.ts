/** The work of a text thread; independent of the thread that runs it. */
import { EngineError } from "#base";
import { badWordTokens } from "./bad-words.ts";
import { ChatTemplate, missingTemplate } from "./chat-template.ts";
import { TemplateCache } from "./template-cache.ts";
import type {
  ChatAnswer,
  ChatJob,
  SharedText,
  TemplateSource,
  TextAnswer,
  TextJob,
} from "./text-jobs.ts";
import { promptTooLong } from "./token-bound.ts";
import { Tokenizer } from "./tokenizer.ts";
import { renderWithTools } from "./tool-text.ts";

const utf8 = { encoder: new TextEncoder(), decoder: new TextDecoder() };

/** The common data of all text threads, serialized into shared memory. */
export function shareText(text: SharedText): SharedArrayBuffer {
  const bytes = utf8.encoder.encode(JSON.stringify(text));
  const shared = new SharedArrayBuffer(bytes.length);
  new Uint8Array(shared).set(bytes);
  return shared;
}

export function readShared(shared: SharedArrayBuffer): SharedText {
  // `TextDecoder` does not accept shared memory, hence the copy.
  return JSON.parse(utf8.decoder.decode(new Uint8Array(shared).slice()));
}

/** A model's tokenizer and templates, and the jobs that need them. */
export class TextWork {
  readonly #tokenizer: Tokenizer;
  readonly #templates: TemplateCache;
  readonly #own: ChatTemplate | null;
  readonly #ownWithTools: ChatTemplate | null;

  constructor({ files, template, toolTemplate }: SharedText) {
    this.#tokenizer = new Tokenizer(files);
    const { namedTokens } = this.#tokenizer;
    this.#templates = new TemplateCache(
      (source) => new ChatTemplate(source, { namedTokens, source: "request" }),
    );
    const parsed = (own: TemplateSource | null): ChatTemplate | null =>
      own === null ? null : new ChatTemplate(own.text, { namedTokens, source: own.from });
    this.#own = parsed(template);
    this.#ownWithTools = parsed(toolTemplate);
  }

  /** Throws the error that the job's request receives. */
  run(job: TextJob): TextAnswer {
    switch (job.kind) {
      case "encode":
        return job.texts.map((text) => this.#tokenizer.encodeIds(text, job));
      case "chat":
        return this.#chat(job);
      case "badWords":
        return badWordTokens(this.#tokenizer, job.words);
      case "decode": {
        const { ids, skipSpecialTokens } = job;
        return this.#tokenizer.decode(ids, { skipSpecialTokens });
      }
    }
  }

  #chat({ messages, options, template: source, ...job }: ChatJob): ChatAnswer {
    const hasTools = (options.tools ?? []).length > 0;
    const own = (hasTools ? this.#ownWithTools : null) ?? this.#own;
    const template = source === null ? own : this.#templates.get(source);
    if (template === null) throw missingTemplate("the model");
    const { text, toolsAsText } = renderWithTools(template, messages, options);
    const { bytesMax, tokensMax, cacheSalt = null } = job;
    checkBytes(text, bytesMax);
    const tooLong = promptTooLong(this.#tokenizer.tokensAtLeast(text), tokensMax, "messages");
    if (tooLong !== null) throw tooLong;
    const ids = this.#tokenizer.encodeIds(text, { addSpecialTokens: false, cacheSalt });
    return { ids, toolsAsText };
  }
}

function checkBytes(text: string, bytesMax: number): void {
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax) throw tooManyBytes(bytes, bytesMax, "messages");
}

/** PROMPT_TOO_LONG for a text that is longer than the operator's limit. */
export function tooManyBytes(bytes: number, bytesMax: number, param: string): EngineError {
  return new EngineError(
    "PROMPT_TOO_LONG",
    `Cannot use ${param}: its text must have at most ${bytesMax} bytes (promptBytesMax), ` +
      `current value is ${bytes}; shorten it`,
    { param },
  );
}
