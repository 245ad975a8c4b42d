import type { SequenceOutput } from "#engine/protocol";
import type { SamplingParams } from "#sampling";
import { type StopResult, StopStrings, type StreamDecoder, type Tokenizer } from "#tokenizer";

/** The text side of one sequence: tokens in, text out, stop strings watched for. */
export class SequenceText {
  readonly #params: SamplingParams;
  readonly #decoder: StreamDecoder;
  readonly #stops: StopStrings;

  /** The text goes on where the prompt's ends: a first word keeps its space. */
  constructor(tokenizer: Tokenizer, params: SamplingParams, promptTokenIds: readonly number[]) {
    const { skipSpecialTokens, spacesBetweenSpecialTokens } = params;
    this.#params = params;
    this.#decoder = tokenizer.stream({ skipSpecialTokens, spacesBetweenSpecialTokens });
    this.#decoder.prime(promptTokenIds);
    this.#stops = new StopStrings(params.stop, { includeInOutput: params.includeStopStrInOutput });
  }

  /** Text to show now. `tokens`: how many the sequence has with these. */
  push(output: SequenceOutput, tokens: number): StopResult {
    const ends = output.finishReason !== null;
    const decoded = this.#decoder.push(this.#visibleTokens(output));
    const tail = ends ? this.#decoder.flush() : "";
    const armed = tokens >= this.#params.minTokens;
    const found = this.#stops.push(decoded + tail, armed);
    if (!ends || found.stop !== null) return found;
    return { text: found.text + this.#stops.flush(), stop: null };
  }

  /** The token that ended the sequence is no part of its text, unless that was asked for. */
  #visibleTokens({ finishReason, stopReason, tokenIds }: SequenceOutput): readonly number[] {
    const endedByToken = finishReason === "stop" && stopReason !== "repetition";
    const hidden = endedByToken && !this.#params.includeStopStrInOutput;
    return hidden ? tokenIds.slice(0, -1) : tokenIds;
  }
}
