// The process's context on GPU 0, for doing harm to it.
import { readFileSync } from "node:fs";
import { cudaFromEnvironment } from "../../../dist/cli/cuda-environment.js";
import { CudaDriver } from "../../../dist/devices/cuda/driver/driver.js";
import { architectureOf, describeGpu } from "../../../dist/devices/cuda/driver/gpu.js";
import { PrimaryContext } from "../../../dist/devices/cuda/driver/primary-context.js";
import { CudaStream } from "../../../dist/devices/cuda/driver/stream.js";
import { KernelModule } from "../../../dist/devices/cuda/kernels/kernel-module.js";
import { KernelParams } from "../../../dist/devices/cuda/kernels/kernel-params.js";
import { compileOptions } from "../../../dist/devices/cuda/kernels/kernels.js";
import { Launcher } from "../../../dist/devices/cuda/kernels/launcher.js";
import { Nvrtc } from "../../../dist/devices/cuda/kernels/nvrtc.js";
import { CudaMemory } from "../../../dist/devices/cuda/memory/memory.js";

function openContext() {
  const driver = CudaDriver.open(cudaFromEnvironment());
  const gpu = describeGpu(driver, 0);
  return { driver, gpu, primary: new PrimaryContext(driver, gpu) };
}

/** Launches the kernel that traps: the engine's context, which is this process's, breaks. */
export function trap() {
  const { driver, gpu } = openContext();
  const architecture = architectureOf(gpu);
  const path = "trap.cu";
  const text = readFileSync(new URL(path, import.meta.url), "utf8");
  const nvrtc = Nvrtc.open(cudaFromEnvironment(), driver.version);
  const cubin = nvrtc.compile({ path, text, headers: {} }, compileOptions(architecture));
  const kernel = new KernelModule(driver, cubin).kernel("trap");
  const launcher = new Launcher(driver, new CudaStream(driver), gpu);
  launcher.launch(kernel, { grid: [1], threads: 1 }, new KernelParams([]));
}

/** Takes all of the GPU's memory but so many bytes. */
export function hold(bytesLeft) {
  const { driver } = openContext();
  const memory = new CudaMemory(driver, new CudaStream(driver));
  const { availableBytes } = memory.size();
  memory.allocate(Math.max(0, availableBytes - bytesLeft), "memory that others shall lack");
  return memory.size();
}
