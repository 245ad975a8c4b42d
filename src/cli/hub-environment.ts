/** The variables that Hugging Face's own tools read. */
export function hubFromEnvironment(): { token?: string; cacheDir?: string; url?: string } {
  const { HF_TOKEN, HF_HUB_CACHE, HF_HOME, HF_ENDPOINT } = process.env;
  const cacheDir = HF_HUB_CACHE ?? (HF_HOME === undefined ? undefined : `${HF_HOME}/hub`);
  return {
    ...(HF_TOKEN === undefined ? {} : { token: HF_TOKEN }),
    ...(cacheDir === undefined ? {} : { cacheDir }),
    ...(HF_ENDPOINT === undefined ? {} : { url: HF_ENDPOINT }),
  };
}
