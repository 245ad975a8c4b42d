import { describe, expect, test } from "vitest";
import {
  type GrammarMatcher,
  type SamplingOptions,
  SamplingParams,
  SequenceSampling,
} from "#sampling";
import { LogitEdits } from "../../src/sampling/logit-edits.ts";
import { allow, allows } from "../../src/sampling/token-mask.ts";
import { pretendMatcher } from "../support/pretend-matcher.ts";

const vocabularySize = 40;
const end = 39;
const forbidden = Number.NEGATIVE_INFINITY;

type Options = Partial<ConstructorParameters<typeof SequenceSampling>[0]>;

function sequence(options: SamplingOptions, more: Options = {}): SequenceSampling {
  return new SequenceSampling({
    params: SamplingParams.parse(options),
    seed: 7,
    promptTokens: [1, 2, 2],
    vocabularySize,
    endTokenIds: [end],
    ...more,
  });
}

/** A grammar that allows the same tokens at every step. */
function fixedGrammar(tokens: readonly number[]): GrammarMatcher {
  const fill = (row: Uint32Array) => {
    row.fill(0);
    for (const token of tokens) allow(row, token);
  };
  return pretendMatcher({
    fillBitmask: async (row) => fill(row),
    fillAhead: fill,
    accept: (token) => tokens.includes(token),
  });
}

interface Row {
  readonly biases: Record<number, number>;
  readonly counts: Record<number, number>;
  readonly allowed: number[] | null;
  readonly penalties: readonly (number | undefined)[];
}

async function editsOf(sampling: SequenceSampling): Promise<Row> {
  const edits = new LogitEdits(1, vocabularySize);
  await sampling.prepare();
  edits.beginRow();
  sampling.write(edits);
  const entries = Array.from(edits.tokens, (token, i) => ({ token, i }));
  const ids = Array.from({ length: vocabularySize }, (_, id) => id);
  return {
    biases: Object.fromEntries(
      entries.map(({ token, i }) => [token, edits.biases[i] ?? 0]).filter(([, bias]) => bias !== 0),
    ),
    counts: Object.fromEntries(
      entries
        .map(({ token, i }) => [token, edits.counts[i] ?? 0])
        .filter(([, count]) => count !== 0),
    ),
    allowed: edits.maskedRows === 0 ? null : ids.filter((id) => allows(edits.allowed, id)),
    penalties: [edits.repetition[0], edits.frequency[0], edits.presence[0]],
  };
}

describe("SequenceSampling", () => {
  test("asks for no edits when nothing is to be changed", () => {
    const plain = sequence({ temperature: 0.7, topP: 0.9, maxTokens: 5 });
    expect(plain.edits).toBe(false);
    expect(plain.constrained).toBe(false);
  });

  test("the repetition penalty knows the prompt, the others only sampled tokens", async () => {
    const repeated = sequence({ repetitionPenalty: 1.5 });
    repeated.accept(2);
    repeated.accept(3);
    repeated.accept(3);
    expect(await editsOf(repeated)).toMatchObject({
      counts: { 1: -1, 2: 1, 3: 2 },
      penalties: [1.5, 0, 0],
    });
    const present = sequence({ presencePenalty: 1, frequencyPenalty: 0.5 });
    expect((await editsOf(present)).counts).toEqual({});
    present.accept(3);
    expect(await editsOf(present)).toMatchObject({ counts: { 3: 1 }, penalties: [1, 0.5, 1] });
  });

  test("biases are added, bad words forbidden", async () => {
    const badWords = [[5], [6, 7]];
    const sampling = sequence({ logitBias: { 3: 2, 5: 100 }, badWords: ["x"] }, { badWords });
    expect((await editsOf(sampling)).biases).toEqual({ 3: 2, 5: forbidden });
    sampling.accept(6);
    expect((await editsOf(sampling)).biases).toEqual({ 3: 2, 5: forbidden, 7: forbidden });
  });

  test("end and stop tokens are forbidden before minTokens", async () => {
    const sampling = sequence({ minTokens: 1, stopTokenIds: [8] });
    expect(sampling.edits).toBe(true);
    expect((await editsOf(sampling)).biases).toEqual({ [end]: forbidden, 8: forbidden });
    sampling.accept(3);
    expect(sampling.edits).toBe(false);
  });

  test("only allowed tokens may be sampled", async () => {
    const sampling = sequence({ allowedTokenIds: [3, 33] });
    expect((await editsOf(sampling)).allowed).toEqual([3, 33]);
  });

  test("a grammar and allowed tokens must both agree; a complete answer may end all the same", async () => {
    const both = sequence({ allowedTokenIds: [3, 4] }, { matcher: fixedGrammar([4, 5]) });
    expect((await editsOf(both)).allowed).toEqual([4]);
    const complete = sequence({ allowedTokenIds: [3] }, { matcher: fixedGrammar([5, end]) });
    expect((await editsOf(complete)).allowed).toEqual([end]);
  });

  test.for<[string, SamplingOptions, number[] | null, string]>([
    ["a choice that has no allowed token", { allowedTokenIds: [3] }, [5], "INVALID_ARGUMENT"],
    ["a grammar that allows nothing", {}, [], "GRAMMAR_INVALID"],
    ["a grammar of bad words", {}, [6], "INVALID_ARGUMENT"],
    ["allowed tokens that are bad words", { allowedTokenIds: [6] }, null, "INVALID_ARGUMENT"],
    ["the same with a minimum", { allowedTokenIds: [6, 8], minTokens: 2 }, [6], "INVALID_ARGUMENT"],
  ])("%s cannot be sampled from", async ([, options, grammar, code]) => {
    const matcher = grammar === null ? null : fixedGrammar(grammar);
    const sampling = sequence({ ...options, badWords: ["x"] }, { matcher, badWords: [[6]] });
    await expect(editsOf(sampling)).rejects.toMatchObject({ code });
  });

  test("bad words that are the whole vocabulary cannot be sampled from", async () => {
    const badWords = Array.from({ length: vocabularySize }, (_, token) => [token]);
    const all = sequence({ badWords: ["x"] }, { badWords: [...badWords, ...badWords] });
    await expect(editsOf(all)).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      param: "badWords",
    });
    const most = sequence({ badWords: ["x"], minTokens: 1 }, { badWords: badWords.slice(0, end) });
    expect((await editsOf(most)).biases[end]).toBeUndefined();
  });

  test("a grammar that can only end goes before minTokens", async () => {
    const open = sequence({ minTokens: 5 }, { matcher: fixedGrammar([4, end]) });
    expect((await editsOf(open)).biases).toEqual({ [end]: forbidden });
    const complete = sequence({ minTokens: 5 }, { matcher: fixedGrammar([end]) });
    expect((await editsOf(complete)).biases).toEqual({});
  });

  test("a token that the grammar refuses is said when the next one is prepared", async () => {
    const sampling = sequence({}, { matcher: fixedGrammar([4]) });
    sampling.accept(4);
    await sampling.prepare();
    sampling.accept(5);
    await expect(sampling.prepare()).rejects.toMatchObject({
      code: "ENGINE_STEP_FAILED",
      message: "Cannot continue: the grammar must allow the sampled token, it refuses token 5",
    });
  });

  test("a mask is asked for once for each token", async () => {
    let asked = 0;
    const grammar = fixedGrammar([4]);
    const fillBitmask = (row: Uint32Array) => {
      asked++;
      return grammar.fillBitmask(row);
    };
    const sampling = sequence({}, { matcher: { ...grammar, fillBitmask } });
    for (let round = 1; round <= 3; round++) {
      await sampling.prepare();
      await sampling.prepare();
      expect(asked).toBe(round);
      sampling.accept(4);
    }
  });

  test("thoughts that are too long are ended by force", async () => {
    const thinking = { startTokenIds: [30], endTokenIds: [31] };
    const sampling = sequence({ thinkingTokenBudget: 1, logitBias: { 3: 1 } }, { thinking });
    for (const token of [30, 4]) sampling.accept(token);
    expect(await editsOf(sampling)).toMatchObject({ allowed: [31], biases: {} });
    sampling.accept(31);
    expect(await editsOf(sampling)).toMatchObject({ allowed: null, biases: { 3: 1 } });
  });

  describe("thoughts and a grammar", () => {
    const thinking = { startTokenIds: [30], endTokenIds: [31] };
    const seen: number[] = [];
    const answers = (promptTokens: number[], budget = 3) => {
      seen.length = 0;
      const grammar = fixedGrammar([4, 5, 30, end]);
      const accept = (token: number) => grammar.accept(token) && seen.push(token) > 0;
      const options = { thinkingTokenBudget: budget, minTokens: 0 };
      return sequence(options, { thinking, promptTokens, matcher: { ...grammar, accept } });
    };

    test("that a prompt opened are free, and cannot end the output", async () => {
      const sampling = answers([1, 30]);
      expect(await editsOf(sampling)).toMatchObject({
        allowed: null,
        biases: { [end]: forbidden },
      });
      for (const token of [7, 8]) sampling.accept(token);
      expect((await editsOf(sampling)).allowed).toBeNull();
      sampling.accept(9);
      expect((await editsOf(sampling)).allowed).toEqual([31]);
      sampling.accept(31);
      expect((await editsOf(sampling)).allowed).toEqual([4, 5, 30, end]);
      sampling.accept(4);
      await sampling.prepare();
      expect(seen).toEqual([4]);
      sampling.accept(7);
      await expect(sampling.prepare()).rejects.toThrow("it refuses token 7");
    });

    test("may be opened before the answer, and not inside of it", async () => {
      const sampling = sequence(
        { thinkingTokenBudget: 3 },
        { thinking, matcher: fixedGrammar([4, end]) },
      );
      expect((await editsOf(sampling)).allowed).toEqual([4, 30, end]);
      for (const token of [30, 7, 31]) sampling.accept(token);
      expect((await editsOf(sampling)).allowed).toEqual([4, end]);
      sampling.accept(30);
      await expect(sampling.prepare()).rejects.toThrow("it refuses token 30");

      const answering = answers([1]);
      for (const token of [4, 30, 5]) answering.accept(token);
      expect((await editsOf(answering)).allowed).toEqual([4, 5, 30, end]);
      expect(seen).toEqual([4, 30, 5]);
    });

    /** The tokens that are allowed behind drafted ones; null: all. */
    function allowedBehind(sampling: SequenceSampling, drafted: readonly number[]) {
      const edits = new LogitEdits(1, vocabularySize);
      edits.beginRow();
      sampling.writeBehind(Int32Array.from(drafted), edits);
      const ids = Array.from({ length: vocabularySize }, (_, id) => id);
      return edits.maskedRows === 0 ? null : ids.filter((id) => allows(edits.allowed, id));
    }

    test("[SP24] in a draft: thoughts are free up to their end, and then the answer begins", async () => {
      const matcher = fixedGrammar([4, end]);
      const sampling = sequence({ thinkingTokenBudget: 3 }, { thinking, matcher });
      expect((await editsOf(sampling)).allowed).toEqual([4, 30, end]);
      expect(allowedBehind(sampling, [30])).toBeNull();
      expect(allowedBehind(sampling, [30, 7])).toBeNull();
      expect(allowedBehind(sampling, [30, 7, 31])).toEqual([4, end]);
      expect(allowedBehind(sampling, [30, 7, 31, 4])).toEqual([4, end]);
      // The answer cannot be left for thoughts, and the budget is that of the path.
      expect(() => allowedBehind(sampling, [4, 30])).toThrow("the grammar must allow them");
      expect(allowedBehind(sampling, [30, 7, 7, 7])).toEqual([31]);
      sampling.comeBack();
      expect((await editsOf(sampling)).allowed).toEqual([4, 30, end]);
    });

    test("[SP24] that began with the prompt: nothing is known of the answer before its first mask", async () => {
      const sampling = answers([1, 30]);
      expect((await editsOf(sampling)).allowed).toBeNull();
      expect(allowedBehind(sampling, [7])).toBeNull();
      expect(() => allowedBehind(sampling, [7, 31])).toThrow("the grammar must allow them");
      sampling.comeBack();
      expect(seen).toEqual([]);
      for (const token of [7, 31]) sampling.accept(token);
      expect((await editsOf(sampling)).allowed).toEqual([4, 5, 30, end]);
    });

    test("of no tokens are not opened", async () => {
      const none = { thinking, matcher: fixedGrammar([4, end]) };
      const sampling = sequence({ thinkingTokenBudget: 0 }, none);
      expect((await editsOf(sampling)).allowed).toEqual([4, end]);
      expect((await editsOf(answers([1, 30], 0))).allowed).toEqual([31]);
    });
  });

  test("a grammar's matcher is created at the first sample, and released once", async () => {
    let [created, disposed] = [0, 0];
    const matcher = async () => {
      created++;
      return { ...fixedGrammar([4]), dispose: () => disposed++ };
    };
    const sampling = sequence({}, { matcher });
    expect([sampling.constrained, sampling.looksBack, created]).toEqual([true, true, 0]);
    expect((await editsOf(sampling)).allowed).toEqual([4]);
    await editsOf(sampling);
    expect(created).toBe(1);
    sampling.dispose();
    expect(disposed).toBe(1);
    sequence({}, { matcher }).dispose();
    expect([created, disposed]).toEqual([1, 1]);
  });

  test("log-probabilities: -1 is the whole vocabulary, and chosen tokens win", () => {
    expect(sequence({}).logprobs).toBeNull();
    expect(sequence({ logprobs: 0 }).logprobs).toEqual({ kind: "top", count: 0 });
    expect(sequence({ logprobs: -1 }).logprobs).toEqual({ kind: "top", count: vocabularySize });
    expect(sequence({ logprobs: 3, logprobTokenIds: [4] }).logprobs).toEqual({
      kind: "tokens",
      tokenIds: [4],
    });
  });

  test("ids outside the vocabulary do no harm", async () => {
    const sampling = sequence({ minTokens: 1, stopTokenIds: [5000] }, { endTokenIds: [end, 41] });
    expect((await editsOf(sampling)).biases).toEqual({ [end]: forbidden });
  });
});
