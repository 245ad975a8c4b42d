/** A JSON answer, as deep as a test wants to look; a wrong guess fails the test by its value. */
export interface Json {
  readonly [key: string]: Json;
}

/** The body of an answer. */
export async function json(response: Response | Promise<Response>): Promise<Json> {
  return JSON.parse(await (await response).text());
}
