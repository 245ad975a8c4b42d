import { describe, expect, it } from "vitest";
import { chunkId } from "#rag";

describe("chunkId", () => {
  it("[RG2] is the same for the same content, and another for another document, place or text", () => {
    const id = chunkId("a.md", 0, "text");
    expect(id).toMatch(/^[0-9a-f]{32}$/);
    expect(chunkId("a.md", 0, "text")).toBe(id);
    const others = [
      chunkId("b.md", 0, "text"),
      chunkId("a.md", 1, "text"),
      chunkId("a.md", 0, "t"),
    ];
    expect(new Set([id, ...others]).size).toBe(4);
  });

  it("[RG2] tells a name with its text from another split of the same letters", () => {
    expect(chunkId("a", 0, "bc")).not.toBe(chunkId("ab", 0, "c"));
  });
});
