import type { ChatSource, PerigeeModel } from "./chat-source.ts";

/** The first numbers of a vector, which has length 1 again, as OpenAI's API shortens. */
function shortened(vector: Float32Array, dimensions: number | undefined): number[] {
  if (dimensions === undefined || dimensions >= vector.length) return Array.from(vector);
  const kept = Array.from(vector.subarray(0, dimensions));
  const length = Math.hypot(...kept);
  return length === 0 ? kept : kept.map((value) => value / length);
}

/** A model of this process. Sampling starts from what its authors recommend, as a server does. */
export function inProcess(model: PerigeeModel): ChatSource {
  return {
    chat: ({ sampling, output, headers: _, messages, ...rest }) =>
      model.chatStream(messages, {
        ...model.defaultSampling,
        ...rest,
        ...sampling,
        ...(output === null ? {} : { structuredOutput: output }),
      }),
    embed: async ({ values, dimensions, signal }) => {
      const results = await model.embed(values, signal === undefined ? {} : { signal });
      return {
        embeddings: results.map(({ embedding }) => shortened(embedding, dimensions)),
        tokens: results.reduce((sum, { promptTokenIds }) => sum + promptTokenIds.length, 0),
      };
    },
  };
}
