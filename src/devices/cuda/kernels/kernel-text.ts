/** A source file with everything that it includes. */
export interface KernelText {
  /** `native/cuda/norm.cu`: what errors call it. */
  readonly path: string;
  readonly text: string;
  /** The text of each header by the name that #include gives it. */
  readonly headers: Readonly<Record<string, string>>;
}
