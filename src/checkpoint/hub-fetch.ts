/** Requests to the hub: the recipient of its token, and limits of answers. */
import { EngineError } from "#base";

/** The common options of a download's requests. */
export interface HubAccess {
  /** Address of the hub, without a trailing slash. */
  readonly hubUrl: string;
  readonly token?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Longest answer about a repository; the list of its files is paged. */
const ANSWER_BYTES_MAX = 32 * 2 ** 20;

/** The origin that the token is for. Throws INVALID_ARGUMENT for an invalid web address. */
export function hubOrigin(hubUrl: string): string {
  const url = URL.canParse(hubUrl) ? new URL(hubUrl) : null;
  if (url !== null && /^https?:$/.test(url.protocol)) return url.origin;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot download: the hub's address must begin with https:// or http://, current value is ` +
      `${hubUrl.slice(0, 80)}; see HF_ENDPOINT and --hub-url`,
    { param: "hubUrl" },
  );
}

/**
 * A fetch whose requests carry the token to the hub's own origin and to no other: not where a page
 * of a list, a file's address or a redirect leads elsewhere (fetch itself drops the header on a
 * redirect). Invalid web addresses reject.
 */
export function hubFetch({ hubUrl, token, signal }: HubAccess): typeof fetch {
  const origin = hubOrigin(hubUrl);
  return async (input, init) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const headers = new Headers(init?.headers);
    headers.delete("Authorization");
    if (token !== undefined && url.origin === origin) {
      headers.set("Authorization", `Bearer ${token}`);
    }
    return fetch(url, { ...init, headers, ...(signal === undefined ? {} : { signal }) });
  };
}

/** The same for answers that are read as a whole: at most `count` of them, of bounded length. */
export function boundedFetch(inner: typeof fetch, count: number): typeof fetch {
  let left = count;
  return async (input, init) => {
    if (left-- <= 0) throw answerTooLong(`at most ${count} pages`);
    const response = await inner(input, init);
    if (response.body === null) return response;
    return new Response(response.body.pipeThrough(lengthLimit()), response);
  };
}

function lengthLimit(): TransformStream<Uint8Array, Uint8Array> {
  let left = ANSWER_BYTES_MAX;
  return new TransformStream({
    transform(piece, controller) {
      left -= piece.byteLength;
      if (left < 0) controller.error(answerTooLong(`at most ${ANSWER_BYTES_MAX} bytes`));
      else controller.enqueue(piece);
    },
  });
}

function answerTooLong(wanted: string): EngineError {
  return new EngineError(
    "NETWORK",
    `Cannot download: the hub's answer about a repository must have ${wanted}, current value is ` +
      "more; check the hub's address",
  );
}
