import { type Device, openDevice } from "#devices";
import type { EngineOptions } from "#engine/protocol";
import { cudaSettings } from "./cuda-settings.ts";
import type { LoadContext } from "./loading.ts";

/** Opens the device of a stage, the first and often only one by default. */
export function openEngineDevice(
  options: EngineOptions,
  context: Pick<LoadContext, "warn" | "onProgress">,
  stage = 0,
): Promise<Device> {
  return openDevice({
    kind: options.device,
    warn: context.warn,
    cuda: cudaSettings(options),
    ...{ gpu: stage, sharesGpus: options.pipeline.shareGpus },
    sharedBy: options.pipeline.stages,
    onKernels: ({ done, total, cached }) => {
      if (!cached) context.onProgress({ part: "kernels", done, total });
    },
    ...(options.threads === null ? {} : { threads: options.threads }),
    ...(options.isa === null ? {} : { isa: options.isa }),
  });
}
