/** Log-probabilities in the formats of chat and completions, and in vLLM's for prompts. */
import type { PositionLogprobs, TokenLogprob } from "#engine";
import type { TokenWriter } from "./token-text.ts";

/** JSON has no infinity; OpenAI uses this value for impossible tokens. */
const impossibleLogprob = -9999;

interface ChatToken {
  readonly token: string;
  readonly logprob: number;
  readonly bytes: readonly number[] | null;
}

export interface ChatLogprobs {
  readonly content: readonly (ChatToken & { readonly top_logprobs: readonly ChatToken[] })[];
  readonly refusal: null;
}

export interface CompletionLogprobs {
  readonly tokens: string[];
  /** Null for a prompt's first token. */
  readonly token_logprobs: (number | null)[];
  readonly top_logprobs: (Record<string, number> | null)[];
  /** Characters (code points) of the choice's text before each token. */
  readonly text_offset: number[];
}

export function chatLogprobs(
  positions: readonly PositionLogprobs[],
  writer: TokenWriter,
): ChatLogprobs {
  const content = positions.map((position) => ({
    ...chatToken(position, writer),
    top_logprobs: position.top.map((other) => chatToken(other, writer)),
  }));
  return { content, refusal: null };
}

function chatToken({ tokenId, logprob }: TokenLogprob, writer: TokenWriter): ChatToken {
  const { text, bytes } = writer.write(tokenId);
  return { token: text, logprob: finite(logprob), bytes };
}

/** Writes the completions format for one sequence incrementally: offsets continue across calls. */
export class CompletionLogprobsWriter {
  readonly #writer: TokenWriter;
  readonly #utf8 = new TextDecoder();
  #offset = 0;

  constructor(writer: TokenWriter) {
    this.#writer = writer;
  }

  /** `positions` has one entry per id, null for an id that no token precedes. */
  write(
    ids: readonly number[],
    positions: readonly (PositionLogprobs | null)[],
  ): CompletionLogprobs {
    const shape: CompletionLogprobs = {
      tokens: [],
      token_logprobs: [],
      top_logprobs: [],
      text_offset: [],
    };
    ids.forEach((id, i) => {
      const position = positions[i] ?? null;
      const { text, bytes } = this.#writer.write(id);
      shape.tokens.push(text);
      shape.token_logprobs.push(position === null ? null : finite(position.logprob));
      shape.top_logprobs.push(position === null ? null : this.#alternatives(position));
      shape.text_offset.push(this.#offset);
      const shown = bytes === null ? text : this.#utf8.decode(Uint8Array.from(bytes), STREAM);
      this.#offset += [...shown].length;
    });
    return shape;
  }

  #alternatives(position: PositionLogprobs): Record<string, number> {
    const entries = [...position.top, position].map(({ tokenId, logprob }): [string, number] => [
      this.#writer.write(tokenId).text,
      finite(logprob),
    ]);
    return Object.fromEntries(entries);
  }
}

const STREAM = { stream: true } as const;

type PromptToken = { logprob: number; rank: number; decoded_token: string };

/** vLLM's `prompt_logprobs`: for each prompt token, the token and its likeliest alternatives. */
export function promptLogprobs(
  positions: readonly (PositionLogprobs | null)[],
  writer: TokenWriter,
): (Record<string, PromptToken> | null)[] {
  const entry = ({ tokenId, logprob, rank }: TokenLogprob): [string, PromptToken] => [
    String(tokenId),
    { logprob: finite(logprob), rank, decoded_token: writer.write(tokenId).text },
  ];
  return positions.map((position) =>
    position === null ? null : Object.fromEntries([...position.top, position].map(entry)),
  );
}

function finite(logprob: number): number {
  return Number.isFinite(logprob) ? logprob : impossibleLogprob;
}
