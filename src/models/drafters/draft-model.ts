/**
 * A small decoder that drafts for a large one of the same vocabulary. Source: Leviathan et al.
 * 2023, "Fast inference from transformers via speculative decoding".
 */
import { assert } from "#base";
import type { Device, DeviceTensor, KvPool } from "#devices";
import { Decoder } from "../decoder.ts";
import type { DecoderSpec } from "../decoder-spec.ts";
import type { DecoderWeights } from "../decoder-weights.ts";
import { plainLayout } from "../kv-layout.ts";
import type { StepInput } from "../step-input.ts";
import { checkStreaming } from "../streaming.ts";
import { SOME_DRAW } from "./draft-draws.ts";
import {
  chainsMax,
  type DraftContext,
  type KvDraftLimits,
  type KvDraftNetwork,
} from "./kv-draft-network.ts";
import type { StartedChains } from "./started-trees.ts";
import { TokenChain } from "./token-chain.ts";

export interface DraftModelParts {
  readonly device: Device;
  readonly spec: DecoderSpec;
  readonly weights: DecoderWeights;
  readonly limits: KvDraftLimits;
}

/**
 * Drafts by a decoder, which runs over every step of the base, up to its last layer's keys and
 * values, and then, token by token, over what it drafts itself. All its layers are in the blocks of
 * the base's first group of layers, which see most, and see no more than these.
 *
 * Nothing is allocated after the constructor, and no level of a chain waits for the host.
 */
export class DraftModel implements KvDraftNetwork {
  readonly limits: KvDraftLimits;
  readonly takesFirstSlot = false;
  /** Runs over steps of the base. */
  readonly #steps: Decoder;
  /** Runs over the newest tokens of chains, a sequence of its own for each. */
  readonly #newest: Decoder;
  readonly #chain: TokenChain;
  readonly #input: ChainInput;

  /** Throws OUT_OF_MEMORY, and INVALID_ARGUMENT for sinks that the model does not support. */
  constructor({ device, spec, weights, limits }: DraftModelParts) {
    const { contextTokensMax, widthMax, lengthMax, blockTokens, streaming } = limits;
    if (streaming !== null) checkStreaming(spec, streaming);
    // Angles go on behind the context that it was trained for: the base may have a longer one.
    const long = {
      ...spec,
      contextTokensMax: Math.max(spec.contextTokensMax, limits.servedTokens),
    };
    const parts = { device, spec: long, weights, streaming, layout: plainLayout(spec) };
    const servedTokens = Math.min(spec.contextTokensMax, limits.servedTokens);
    this.limits = limits;
    this.#steps = new Decoder({
      ...{ ...parts, servedTokens, cachesOnly: true },
      limits: {
        stepTokensMax: limits.stepTokensMax,
        sequencesMax: limits.stepSequencesMax,
        logitRowsMax: 1,
        blocksPerSequenceMax: limits.blocksPerSequenceMax,
        treeTokensMax: limits.treeTokensMax,
        ...{ blockTokens, contextTokensMax },
      },
    });
    const rowsMax = chainsMax(limits);
    const blocksPerSequenceMax = Math.ceil((contextTokensMax + lengthMax) / blockTokens);
    this.#newest = new Decoder({
      ...{ ...parts, servedTokens },
      limits: {
        ...{ stepTokensMax: rowsMax, sequencesMax: rowsMax, logitRowsMax: rowsMax },
        ...{ blocksPerSequenceMax, blockTokens, contextTokensMax },
      },
    });
    const { vocabularySize } = spec;
    this.#chain = new TokenChain(device, { rowsMax, widthMax, lengthMax, vocabularySize });
    this.#input = makeInput(rowsMax, blocksPerSequenceMax);
  }

  fill(step: StepInput, cache: KvPool, sampled: DeviceTensor): void {
    const [tables] = step.tables;
    assert(tables !== undefined, "Cannot fill a step without block tables");
    this.#steps.stage({ ...step, tables: [tables] }, sampled);
    this.#steps.forward(cache);
  }

  chains(contexts: readonly DraftContext[], cache: KvPool): StartedChains {
    const lengths = contexts.map(({ length }) => length);
    const levels = Math.max(...lengths);
    this.#chain.begin(contexts);
    for (let level = 0; level < levels; level++) {
      this.#run(this.#levelOf(contexts, level), level, cache);
    }
    return this.#chain.end(lengths);
  }

  runSizes(cache: KvPool): void {
    const { widthMax, contextTokensMax, lengthMax } = this.limits;
    const rowsMax = chainsMax(this.limits);
    for (let count = 1; count < 2 * rowsMax; count *= 2) {
      const sequences = Math.min(count, rowsMax);
      const pad = (tokens: number) => this.#newest.paddedContext(tokens, sequences, cache);
      for (const context of new Set([1, 2048, 8192, contextTokensMax + lengthMax].map(pad))) {
        this.#input.slots.fill(-1);
        this.#input.contextLengths.fill(1);
        for (const draw of [null, SOME_DRAW]) {
          this.#chain.begin(
            Array.from({ length: sequences }, () => ({ rank: widthMax - 1, draw })),
          );
          this.#run(this.#stepOf(sequences, context), 0, cache);
        }
      }
    }
  }

  /** One token of each chain, and what follows it. */
  #run(step: StepInput, level: number, cache: KvPool): void {
    this.#newest.stage(step, this.#chain.tokens);
    this.#newest.forward(cache);
    const logits = this.#newest.samplingLogits();
    assert(logits !== null, "Cannot draft: the step samples from no row");
    this.#chain.choose(level, step.sequences, logits);
  }

  #levelOf(contexts: readonly DraftContext[], level: number): StepInput {
    const { blockTokens, contextTokensMax } = this.limits;
    const { tokenIds, sources, positions, contextLengths, slots, tables } = this.#input;
    const columns = tables.length / tokenIds.length;
    let longest = 0;
    contexts.forEach(({ root, position, table, length }, row) => {
      // A shorter chain computes its last token again.
      const place = position + Math.min(level, length - 1);
      const block = table[Math.floor(place / blockTokens)] ?? 0;
      tokenIds[row] = root;
      sources[row] = level === 0 ? -1 : (level - 1) * this.#chain.stride + row;
      positions[row] = Math.min(place, contextTokensMax - 1);
      contextLengths[row] = place + 1;
      slots[row] = block * blockTokens + (place % blockTokens);
      if (level === 0) tables.set(table, row * columns);
      longest = Math.max(longest, place + 1);
    });
    return this.#stepOf(contexts.length, longest);
  }

  #stepOf(sequences: number, contextLengthMax: number): StepInput {
    const { tokenIds, sources, positions, starts, contextLengths, slots, tables } = this.#input;
    return {
      ...{ tokens: sequences, sequences, tokenIds, tokenSources: sources, positions },
      ...{ queryStarts: starts, contextLengths, contextLengthMax, queryLengthMax: 1 },
      tables: [{ slots, blockTables: tables }],
      samplesAll: true,
    };
  }
}

/** A level's step, S chains. [S] each. */
interface ChainInput {
  readonly tokenIds: Int32Array;
  readonly sources: Int32Array;
  readonly positions: Int32Array;
  /** [S + 1]. */
  readonly starts: Int32Array;
  readonly contextLengths: Int32Array;
  readonly slots: Int32Array;
  /** [S, M]. */
  readonly tables: Int32Array;
}

function makeInput(sequences: number, blocks: number): ChainInput {
  const ints = (length = sequences): Int32Array => new Int32Array(length);
  return {
    ...{ tokenIds: ints(), sources: ints().fill(-1), positions: ints() },
    starts: Int32Array.from({ length: sequences + 1 }, (_, row) => row),
    ...{ contextLengths: ints(), slots: ints(), tables: ints(sequences * blocks) },
  };
}
