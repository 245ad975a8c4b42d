/** What a server has done before its memory and its pauses are looked at. */
import { sized } from "../support/full.ts";
import { sendBody } from "./case-sender.ts";

/** What ordinary clients do on a busy day: the pool is full then, and all workers have begun. */
export async function warmUp(url: string): Promise<void> {
  const send = async (path: string, body: object): Promise<void> => {
    const { status, text } = await sendBody(url, path, JSON.stringify(body));
    if (status !== 200) throw new Error(`Cannot warm up by ${path}: ${status} ${text}`);
  };
  const complete = (body: object) => send("/v1/completions", body);
  for (let at = 0; at < sized(14, 28); at++) {
    await complete({ prompt: `${at} ${"value ".repeat(950)}`, max_tokens: 1, n: 2, seed: 1 });
  }
  await complete({ prompt: new Array<string>(1_000).fill("A"), max_tokens: 2 });
  const grammars = Array.from({ length: 8 }, (_, at) => ({
    guided_json: { type: "object", properties: { [`p${at}`]: {} } },
  }));
  await Promise.all(
    grammars.map((grammar) => complete({ prompt: "A", max_tokens: 4, ...grammar })),
  );
  const long = { prompt: "word ".repeat(sized(20_000, 80_000)) };
  // Not all at once: each has a deadline, also on a busy machine.
  for (let round = 0; round < 4; round++) {
    await Promise.all([send("/tokenize", long), send("/tokenize", long)]);
  }
}
