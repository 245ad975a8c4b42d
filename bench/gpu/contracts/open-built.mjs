// Where test/contracts are once `contracts.mjs --build` has compiled them.
import { existsSync, symlinkSync } from "node:fs";
import { register } from "node:module";
import { giveUp } from "../gpu-bench.mjs";

const built = new URL("../../../native/build/gpu-contracts/", import.meta.url);

/** The folder of compiled contracts, ready to be imported; ends the process where there is none. */
export function openBuilt() {
  const contracts = new URL("test/contracts/", built);
  if (!existsSync(contracts)) {
    giveUp("Cannot find the compiled contracts: run node bench/gpu/contracts.mjs --build first");
  }
  const fixtures = new URL("test/fixtures", built);
  if (!existsSync(fixtures)) symlinkSync("../../../../test/fixtures", fixtures);
  register("./resolve-stand-in.mjs", import.meta.url);
  // The long sizes of `sized`: a GPU computes them at once.
  process.env.PERIGEE_FULL = "1";
  return contracts;
}
