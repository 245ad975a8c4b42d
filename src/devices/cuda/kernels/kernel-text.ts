/** A source file with all its includes. */
export interface KernelText {
  /** `native/cuda/norm.cu`: its name in errors. */
  readonly path: string;
  readonly text: string;
  /** The text of each header by the name in #include. */
  readonly headers: Readonly<Record<string, string>>;
}
