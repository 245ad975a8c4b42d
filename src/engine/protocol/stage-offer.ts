/** Where the pieces of a transfer can be read at one stage of several. */
export interface StageOffer {
  readonly offer: string;
  readonly port: number;
  /** Of a block, behind those of the stages before. */
  readonly bytes: number;
}
