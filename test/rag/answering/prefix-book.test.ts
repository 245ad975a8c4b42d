import { describe, expect, it } from "vitest";
import { type BookEntry, PrefixBook } from "../../../src/rag/answering/prefix-book.ts";

const entry = (id: string, tokens = 256): BookEntry => {
  return { id, documentId: id.slice(0, 1), index: Number(id.slice(1)), tokens };
};
const entries = (ids: string) => ids.split(" ").map((id) => entry(id));
const idsOf = (list: readonly BookEntry[]) => list.map(({ id }) => id).join(" ");
const always = () => true;

/** Orders prompts one after another, and notes each. */
function ordersOf(prompts: readonly string[]): string[] {
  const book = new PrefixBook();
  return prompts.map((ids) => {
    const { order } = book.arrange(entries(ids), always);
    book.note(order, []);
    return idsOf(order);
  });
}

describe("PrefixBook", () => {
  it("[RG82] puts unknown passages in the order of their documents", () => {
    expect(ordersOf(["b2 a10 b1 a9"])).toEqual(["a9 a10 b1 b2"]);
  });

  it("[RG82] begins with the longest run of an earlier prompt", () => {
    expect(ordersOf(["a3 a4 a5", "a1 a4 a3", "a1 a2 a3 a4"])).toEqual([
      "a3 a4 a5",
      "a3 a4 a1",
      "a3 a4 a1 a2",
    ]);
  });

  it("[RG82] puts what is asked for often before what is not, where no run begins", () => {
    const orders = ordersOf(["a1 a2", "a1 a3", "a1 a4 b1", "a0 b1"]);
    expect(orders.at(-1)).toBe("b1 a0");
  });

  it("[RG82] measures a run by its tokens, not by its passages", () => {
    const book = new PrefixBook();
    book.note([entry("a1", 10), entry("a2", 10)], []);
    book.note([entry("a3", 500)], []);
    const { order, warm } = book.arrange(
      [entry("a1", 10), entry("a2", 10), entry("a3", 500)],
      always,
    );
    expect([idsOf(order), warm]).toEqual(["a3 a1 a2", 1]);
  });

  it("[RG83] takes no run that the cache has lost, from where it was lost", () => {
    const book = new PrefixBook();
    book.note(entries("a2 a3 a1"), [1n, 2n, 3n]);
    const lost = (hash: bigint) => hash !== 2n;
    const { order, warm } = book.arrange(entries("a1 a2 a3"), lost);
    expect([idsOf(order), warm]).toEqual(["a2 a1 a3", 1]);
    expect(book.arrange(entries("a1 a2 a3"), always).warm).toBe(3);
    expect(book.arrange(entries("a1 a2 a3"), () => false).warm).toBe(0);
  });

  it("forgets the orders that were used least recently, and keeps the others whole", () => {
    const book = new PrefixBook();
    book.note(entries("z1 z2 z3"), []);
    for (let i = 0; i < 2100; i++) {
      book.note([entry(`a${i}`), entry(`b${i}`)], []);
      if (i % 100 === 0) book.note(entries("z1 z2 z3"), []);
    }
    expect(book.size).toBe(4096);
    expect(book.arrange(entries("z3 z2 z1"), always).warm).toBe(3);
    expect(book.arrange([entry("a0"), entry("b0")], always).warm).toBe(0);
    expect(book.arrange([entry("a2099"), entry("b2099")], always).warm).toBe(2);
  });

  it("counts old uses less than new ones", () => {
    const book = new PrefixBook();
    for (let i = 0; i < 3; i++) book.note([entry("a1")], []);
    expect(book.heat("a1")).toBeGreaterThan(2.9);
    for (let i = 0; i < 400; i++) book.note([entry("b1")], []);
    expect(book.heat("a1")).toBeLessThan(0.8);
    expect(book.heat("c1")).toBe(0);
  });
});
