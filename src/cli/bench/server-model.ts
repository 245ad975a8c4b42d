/** The model of a running server. */
import { EngineError } from "#base";

const SAFE_VOCABULARY = 1000;

/** Its name and vocabulary. Servers that do not report theirs receive only low ids. */
export async function describeServer(url: string, apiKey: string | null) {
  const headers = apiKey === null ? {} : { authorization: `Bearer ${apiKey}` };
  const read = async (path: string): Promise<unknown> => {
    const response = await fetch(new URL(path, url), { headers });
    if (!response.ok) throw new Error(`status ${response.status}`);
    return response.json();
  };
  try {
    const list = (await read("/v1/models")) as { data: { id: string }[] };
    const info = (await read("/server_info").catch(() => ({}))) as {
      model_details?: { vocabularySize?: number };
    };
    const vocabularySize = info.model_details?.vocabularySize ?? SAFE_VOCABULARY;
    return { model: list.data[0]?.id ?? "", vocabularySize };
  } catch (cause) {
    throw new EngineError(
      "NETWORK",
      `Cannot reach ${url}: wanted a running server (perigee serve)`,
      {
        cause,
      },
    );
  }
}
