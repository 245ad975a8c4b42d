import type { DispatchRequest } from "#cluster/routing";
import { hashText } from "#cluster/routing";
import type { GenerationRequest } from "./generation-request.ts";

/** What routing reads of a request's prompts. */
export interface ReadPrompts {
  readonly query: Omit<DispatchRequest, "excluded">;
  /** By prompt; null: the worker renders and encodes them. */
  readonly promptTokenIds: readonly (readonly number[])[] | null;
}

/** Characters of a token, where no tokenizer is known. */
const TOKEN_CHARACTERS = 4;
/** Leading text that prefix policies hash. */
const PREFIX_CHARACTERS = 1024;

/** Reads prompts for routing. */
export class PromptReader {
  read(request: GenerationRequest): ReadPrompts {
    const { model, session, outputTokens, salt, text } = request;
    const leading = leadingText(request);
    return {
      promptTokenIds: null,
      query: {
        ...{ model, session, outputTokens, salt, lora: null, tokens: null },
        promptTokens: Math.ceil(text.length / TOKEN_CHARACTERS),
        prefixHash: hashText(leading),
      },
    };
  }
}

function leadingText({ body, text }: GenerationRequest): string {
  const field = body.messages ?? body.prompt ?? body.input;
  if (typeof field === "string") return field.slice(0, PREFIX_CHARACTERS);
  return field === undefined
    ? text.slice(0, 64)
    : JSON.stringify(field).slice(0, PREFIX_CHARACTERS);
}
