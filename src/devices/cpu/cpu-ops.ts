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
import type { CpuContext } from "./context.ts";
import { activate } from "./ops/activate.ts";
import { add } from "./ops/add.ts";
import { adjustLogits } from "./ops/adjust-logits.ts";
import { convert } from "./ops/convert.ts";
import { embed } from "./ops/embed.ts";
import { encoderAttention } from "./ops/encoder-attention.ts";
import { gatherRows } from "./ops/gather-rows.ts";
import { linear } from "./ops/linear.ts";
import { linearActivate } from "./ops/linear-activate.ts";
import { logprobs } from "./ops/logprobs.ts";
import { meanPool } from "./ops/mean-pool.ts";
import { mixtureOfExperts } from "./ops/mixture-of-experts.ts";
import { norm } from "./ops/norm.ts";
import { pagedAttention } from "./ops/paged-attention.ts";
import { ropeKvWrite } from "./ops/rope-kv-write.ts";
import { sample } from "./ops/sample.ts";
import { softcap } from "./ops/softcap.ts";
import { spreadRows } from "./ops/spread-rows.ts";
import { takeTokens } from "./ops/take-tokens.ts";

/** The ops, one file each: ops/<op>.ts checks shapes, native/cpu/<op>.cpp computes. */
export class CpuOps implements DeviceOps {
  readonly #context: CpuContext;

  constructor(context: CpuContext) {
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

  linear(input: LinearInput): void {
    linear(this.#context, input);
  }

  linearActivate(input: LinearActivateInput): void {
    linearActivate(this.#context, input);
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

  ropeKvWrite(input: RopeKvWriteInput): void {
    ropeKvWrite(this.#context, input);
  }

  pagedAttention(input: PagedAttentionInput): void {
    pagedAttention(this.#context, input);
  }

  encoderAttention(input: EncoderAttentionInput): void {
    encoderAttention(this.#context, input);
  }

  mixtureOfExperts(input: MixtureOfExpertsInput): void {
    mixtureOfExperts(this.#context, input);
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
