/** A model of the hub that is not on this machine is downloaded before it is loaded. */
import { EngineError } from "#base";
import { missingRepository, type PullProgress, pullModel } from "#checkpoint";
import { DownloadBar } from "./download-bar.ts";
import { hubFromEnvironment } from "./hub-environment.ts";

/** Where and how a model is looked for. */
export interface PresentOptions {
  readonly revision?: string;
  readonly cacheDir?: string;
  /** Nothing is downloaded. */
  readonly offline: boolean;
  /** Receives what is downloaded; where there is no terminal, now and then how far it is. */
  readonly say: (message: string) => void;
}

/** Whether Hugging Face's own tools would download nothing. */
export function isHubOffline(environment: Readonly<Record<string, string | undefined>>): boolean {
  return ["1", "ON", "YES", "TRUE"].includes((environment.HF_HUB_OFFLINE ?? "").toUpperCase());
}

/**
 * Downloads a model that is named as on the hub and is not here; does nothing for all else. Throws
 * what `pullModel` does, and MODEL_NOT_FOUND where it would have to be downloaded but must not.
 */
export async function presentModel(model: string, options: PresentOptions): Promise<void> {
  const { revision, cacheDir, offline, say } = options;
  const place = {
    ...(revision === undefined ? {} : { revision }),
    ...(cacheDir === undefined ? {} : { cacheDir }),
  };
  const name = await missingRepository(model, place);
  if (name === null) return;
  if (offline) {
    throw new EngineError(
      "MODEL_NOT_FOUND",
      `Cannot find model: ${name} must be on this machine, it is not, and --offline forbids to ` +
        `download it; where there is a network: perigee models pull ${name}`,
      { param: "model" },
    );
  }
  const { token, url } = hubFromEnvironment();
  say(`downloading ${name} from ${url ?? "https://huggingface.co"}`);
  const bar = new DownloadBar(name);
  const tenths = new Tenths((text) => say(`downloading ${name}: ${text}`));
  try {
    await pullModel({
      ...{ name, ...place },
      ...(token === undefined ? {} : { token }),
      ...(url === undefined ? {} : { hubUrl: url }),
      onProgress: (progress) => {
        bar.show(progress);
        if (!process.stderr.isTTY) tenths.show(progress);
      },
    });
  } finally {
    await bar.stop();
  }
}

/** A line for each tenth of a download. */
class Tenths {
  readonly #tell: (text: string) => void;
  #told = 0;

  constructor(tell: (text: string) => void) {
    this.#tell = tell;
  }

  show({ doneBytes, totalBytes }: PullProgress): void {
    const tenth = Math.floor((10 * doneBytes) / Math.max(1, totalBytes));
    if (tenth <= this.#told) return;
    this.#told = tenth;
    this.#tell(`${(doneBytes / 1e6).toFixed(0)} of ${(totalBytes / 1e6).toFixed(0)} MB`);
  }
}
