/** The parts of a grammar text. */
import type { Expr, Repeat } from "./ebnf-syntax.ts";

/** A terminal in a rule: a whole regular expression, or a part of one that was split. */
export interface Terminal {
  readonly kind: "terminal";
  readonly id: number;
  readonly expr: Expr;
}

/** An expression whose regular parts are terminals. */
export type Syntax =
  | Terminal
  | { readonly kind: "sequence"; readonly items: readonly Syntax[] }
  | { readonly kind: "choice"; readonly items: readonly Syntax[] }
  | (Omit<Repeat, "item"> & { readonly item: Syntax })
  | { readonly kind: "rule"; readonly name: string };
