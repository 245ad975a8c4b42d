import type { SequenceOutput } from "#engine/protocol";
import type { SamplingParams } from "#sampling";
import { type StopResult, StopStrings, type StreamDecoder, type Tokenizer } from "#tokenizer";

/** Text of an output's first tokens. */
export interface WrittenText extends StopResult {
  /** Number of these tokens. */
  readonly kept: number;
}

/** Decodes one sequence's tokens to text, and detects stop strings. */
export class SequenceText {
  readonly #params: SamplingParams;
  readonly #decoder: StreamDecoder;
  readonly #stops: StopStrings;

  /** The text continues the prompt's: a first word keeps its leading space. */
  constructor(tokenizer: Tokenizer, params: SamplingParams, promptTokenIds: Int32Array) {
    const { skipSpecialTokens, spacesBetweenSpecialTokens, shownTokenIds } = params;
    this.#params = params;
    this.#decoder = tokenizer.stream({
      ...{ skipSpecialTokens, spacesBetweenSpecialTokens, shownTokenIds },
    });
    this.#decoder.prime(promptTokenIds);
    this.#stops = new StopStrings(params.stop, { includeInOutput: params.includeStopStrInOutput });
  }

  /**
   * Reads tokens that were generated elsewhere, none of which ended the sequence. Returns their
   * text as far as it was delivered; null: a stop string ends in it.
   */
  resume(tokenIds: Int32Array): string | null {
    const { stop, minTokens } = this.#params;
    if (stop.length === 0) return this.#decoder.push(tokenIds);
    let text = "";
    for (const [place, token] of tokenIds.entries()) {
      const found = this.#stops.push(this.#decoder.push([token]), place + 1 >= minTokens);
      if (found.stop !== null) return null;
      text += found.text;
    }
    return text;
  }

  /**
   * Text to deliver now, and how many of the output's tokens it is of: those behind a stop string
   * are dropped. `tokens`: how many the sequence has generated, these included.
   */
  push(output: SequenceOutput, tokens: number): WrittenText {
    const { tokenIds } = output;
    const count = tokenIds.length;
    if (count <= 1 || this.#params.stop.length === 0) {
      return { ...this.#pushAll(output, tokens), kept: count };
    }
    let text = "";
    const continues = { ...output, finishReason: null, stopReason: null };
    for (let kept = 1; kept <= count; kept++) {
      const one = kept === count ? output : continues;
      const single = { ...one, tokenIds: tokenIds.slice(kept - 1, kept) };
      const found = this.#pushAll(single, tokens - count + kept);
      text += found.text;
      if (found.stop !== null) return { text, stop: found.stop, kept };
    }
    return { text, stop: null, kept: count };
  }

  #pushAll(output: SequenceOutput, tokens: number): StopResult {
    const ends = output.finishReason !== null;
    const decoded = this.#decoder.push(this.#visibleTokens(output));
    const tail = ends ? this.#decoder.flush() : "";
    const armed = tokens >= this.#params.minTokens;
    const found = this.#stops.push(decoded + tail, armed);
    if (!ends || found.stop !== null) return found;
    return { text: found.text + this.#stops.flush(), stop: null };
  }

  /** Omits the token that ended the sequence, unless `includeStopStrInOutput` is set. */
  #visibleTokens({ finishReason, stopReason, tokenIds }: SequenceOutput): readonly number[] {
    const endedByToken = finishReason === "stop" && stopReason !== "repetition";
    const hidden = endedByToken && !this.#params.includeStopStrInOutput;
    return hidden ? tokenIds.slice(0, -1) : tokenIds;
  }
}
