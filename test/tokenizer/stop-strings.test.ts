import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { StopStrings } from "#tokenizer";

/** Pushes pieces until a stop, or flushes; the shown text, and the stop. */
function run(stops: string[], pieces: readonly string[], include = false) {
  const watcher = new StopStrings(stops, { includeInOutput: include });
  let text = "";
  for (const piece of pieces) {
    const result = watcher.push(piece);
    text += result.text;
    if (result.stop !== null) return { text, stop: result.stop };
  }
  return { text: text + watcher.flush(), stop: null };
}

describe("StopStrings", () => {
  test("leaves the stop string out, even when it comes in pieces", () => {
    expect(run(["STOP"], ["abcS", "T", "OPdef"])).toEqual({ text: "abc", stop: "STOP" });
  });

  test("can keep it, and drops what follows", () => {
    expect(run(["STOP"], ["abcS", "TOPdef"], true)).toEqual({ text: "abcSTOP", stop: "STOP" });
  });

  test("gives held text back when it was no stop string", () => {
    expect(run(["STOP"], ["abcST", "xyz", "ST"])).toEqual({ text: "abcSTxyzST", stop: null });
  });

  test("takes the match that ends first, and the longer of two that end together", () => {
    expect(run(["longer one", "er"], ["a longer one"])).toEqual({ text: "a long", stop: "er" });
    expect(run(["b", "ab"], ["xab"])).toEqual({ text: "x", stop: "ab" });
  });

  test("shows at once what cannot become a stop string", () => {
    const watcher = new StopStrings(["\n\nUser:"], { includeInOutput: false });
    expect(watcher.push("Hello").text).toBe("Hello");
    expect(watcher.push(" world\n").text).toBe(" world");
    expect(watcher.push("again").text).toBe("\nagain");
  });

  test("does not see what ended before it was armed", () => {
    const watcher = new StopStrings(["ab"], { includeInOutput: false });
    expect(watcher.push("xab", false)).toEqual({ text: "xab", stop: null });
    expect(watcher.push("a", false)).toEqual({ text: "", stop: null });
    expect(watcher.push("b")).toEqual({ text: "", stop: "ab" });
  });

  test("64 stop strings of 24,000 characters cost a token next to nothing", () => {
    // Each text looks like the beginning of all of them: 3.5 s a token when ends were compared.
    const stops = Array.from({ length: 64 }, (_, i) => `${"a".repeat(24_000 + i)}b`);
    const watcher = new StopStrings(stops, { includeInOutput: false });
    for (let token = 0; token < 10_000; token++) {
      expect(watcher.push("aaaa")).toEqual({
        text: token < 6_000 ? "" : expect.any(String),
        stop: null,
      });
    }
    expect(watcher.push("b").stop).toBe(stops.at(-1));
  });

  test("text that looked like their beginning and goes on otherwise costs nothing either", () => {
    // One such token took 35 s when every beginning was compared with every stop string.
    const stops = Array.from({ length: 64 }, (_, i) => `${"a".repeat(24_000 + i)}b`);
    const watcher = new StopStrings(stops, { includeInOutput: false });
    for (let time = 0; time < 20; time++) {
      expect(watcher.push("a".repeat(23_000))).toEqual({ text: "", stop: null });
      expect(watcher.push("c")).toEqual({ text: `${"a".repeat(23_000)}c`, stop: null });
    }
  });

  test("sequences of one request share what its stop strings were made into", () => {
    const stops = ["ab"];
    const [first, second] = [0, 1].map(() => new StopStrings(stops, { includeInOutput: false }));
    expect(first?.push("xa").text).toBe("x");
    expect(second?.push("b").text).toBe("b");
    expect(first?.push("b").stop).toBe("ab");
  });

  test("without stop strings, text passes through", () => {
    expect(run([], ["a", "b"])).toEqual({ text: "ab", stop: null });
  });

  test("a fork is independent", () => {
    const watcher = new StopStrings(["ab"], { includeInOutput: false });
    watcher.push("xa");
    const copy = watcher.fork();
    expect(watcher.push("b").stop).toBe("ab");
    expect(copy.push("c").text).toBe("ac");
  });

  test("agrees with a search of the whole text, however it is cut", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", "😀"), maxLength: 6 });
    const stops = fc.array(
      letters.filter((stop) => stop !== ""),
      { minLength: 1, maxLength: 3 },
    );
    fc.assert(
      fc.property(
        stops,
        fc.array(letters, { maxLength: 8 }),
        fc.boolean(),
        (all, parts, include) => {
          const text = parts.join("");
          const ends = all
            .filter((stop) => text.includes(stop))
            .map((stop) => ({ stop, end: text.indexOf(stop) + stop.length }))
            .sort((a, b) => a.end - b.end || b.stop.length - a.stop.length);
          const [first] = ends;
          const cut =
            first === undefined ? text.length : first.end - (include ? 0 : first.stop.length);
          expect(run(all, parts, include)).toEqual({
            text: text.slice(0, cut),
            stop: first?.stop ?? null,
          });
        },
      ),
      { numRuns: 2000, seed: 7 },
    );
  });
});
