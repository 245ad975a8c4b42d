import type { Json } from "./json.ts";

/** The JSON events of an answer, without the closing [DONE]; fails when that is missing. */
export async function readEvents(response: Response): Promise<Json[]> {
  const blocks = (await response.text()).split("\n\n").filter((block) => block !== "");
  if (blocks.at(-1) !== "data: [DONE]") throw new Error(`No [DONE] but ${blocks.at(-1)}`);
  return blocks.slice(0, -1).map((block) => JSON.parse(block.replace(/^data: /, "")));
}
