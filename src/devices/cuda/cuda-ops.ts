import { kvPoolOf } from "#devices/cuda/memory";
import {
  activate,
  add,
  adjustLogits,
  type CudaContext,
  convert,
  embed,
  encoderAttention,
  gatherRows,
  linear,
  linearActivate,
  logprobs,
  meanPool,
  mixtureOfExperts,
  norm,
  pagedAttention,
  ropeKvWrite,
  sample,
  softcap,
  spreadRows,
  takeTokens,
} from "#devices/cuda/ops";
import type {
  ActivateInput,
  AddInput,
  AdjustLogitsInput,
  ConvertInput,
  DeviceOps,
  EmbedInput,
  EncoderAttentionInput,
  GatherRowsInput,
  LinearActivateInput,
  LinearInput,
  LogprobsInput,
  MeanPoolInput,
  MixtureOfExpertsInput,
  NormInput,
  PagedAttentionInput,
  RopeKvWriteInput,
  SampleInput,
  SoftcapInput,
  SpreadRowsInput,
  TakeTokensInput,
} from "../ops.ts";

/** The ops, one file each: ops/<op>.ts checks shapes, native/cuda/<op>.cu computes. */
export class CudaOps implements DeviceOps {
  readonly #context: CudaContext;

  constructor(context: CudaContext) {
    this.#context = context;
  }

  takeTokens(input: TakeTokensInput): void {
    takeTokens(this.#context, input);
  }

  spreadRows(input: SpreadRowsInput): void {
    spreadRows(this.#context, input);
  }

  embed(input: EmbedInput): void {
    embed(this.#context, input);
  }

  norm(input: NormInput): void {
    norm(this.#context, input);
  }

  activate(input: ActivateInput): void {
    activate(this.#context, input);
  }

  convert(input: ConvertInput): void {
    convert(this.#context, input);
  }

  add(input: AddInput): void {
    add(this.#context, input);
  }

  gatherRows(input: GatherRowsInput): void {
    gatherRows(this.#context, input);
  }

  meanPool(input: MeanPoolInput): void {
    meanPool(this.#context, input);
  }

  softcap(input: SoftcapInput): void {
    softcap(this.#context, input);
  }

  linear(input: LinearInput): void {
    linear(this.#context, input);
  }

  linearActivate(input: LinearActivateInput): void {
    linearActivate(this.#context, input);
  }

  ropeKvWrite(input: RopeKvWriteInput): void {
    this.#context.moves.settleLayer(kvPoolOf(input.cache), input.layer);
    ropeKvWrite(this.#context, input);
  }

  pagedAttention(input: PagedAttentionInput): void {
    this.#context.moves.settleLayer(kvPoolOf(input.cache), input.layer);
    pagedAttention(this.#context, input);
  }

  encoderAttention(input: EncoderAttentionInput): void {
    encoderAttention(this.#context, input);
  }

  mixtureOfExperts(input: MixtureOfExpertsInput): void {
    mixtureOfExperts(this.#context, input);
  }

  adjustLogits(input: AdjustLogitsInput): void {
    adjustLogits(this.#context, input);
  }

  sample(input: SampleInput): void {
    sample(this.#context, input);
  }

  logprobs(input: LogprobsInput): void {
    logprobs(this.#context, input);
  }
}
