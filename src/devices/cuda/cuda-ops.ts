import type {
  ActivateInput,
  AddInput,
  ConvertInput,
  DeviceOps,
  EmbedInput,
  GatherRowsInput,
  MeanPoolInput,
  NormInput,
  SoftcapInput,
} from "../ops.ts";
import type { CudaContext } from "./context.ts";
import { activate } from "./ops/activate.ts";
import { add } from "./ops/add.ts";
import { convert } from "./ops/convert.ts";
import { embed } from "./ops/embed.ts";
import { gatherRows } from "./ops/gather-rows.ts";
import { meanPool } from "./ops/mean-pool.ts";
import { norm } from "./ops/norm.ts";
import { softcap } from "./ops/softcap.ts";

/** Ops that this device has. When it is all of them, `CudaDevice` is a `Device`. */
export type CudaOpName =
  | "activate"
  | "add"
  | "convert"
  | "embed"
  | "gatherRows"
  | "meanPool"
  | "norm"
  | "softcap";

/** The ops, each in its own file: ops/<op>.ts checks shapes, native/cuda/<op>.cu computes. */
export class CudaOps implements Pick<DeviceOps, CudaOpName> {
  readonly #context: CudaContext;

  constructor(context: CudaContext) {
    this.#context = context;
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
}
