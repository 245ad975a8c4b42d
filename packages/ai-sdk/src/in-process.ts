import type { ChatSource, PerigeeModel } from "./chat-source.ts";

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
      const results = await model.embed(values, {
        ...(dimensions === undefined ? {} : { dimensions }),
        ...(signal === undefined ? {} : { signal }),
      });
      return {
        embeddings: results.map(({ embedding }) => Array.from(embedding)),
        tokens: results.reduce((sum, { promptTokenIds }) => sum + promptTokenIds.length, 0),
      };
    },
  };
}
