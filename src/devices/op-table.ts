/** Makes the ops of a device, which are methods, from functions of a context and an input. */

import type { DeviceOps } from "./ops.ts";

/** A device's function for each op of the contract. */
export type OpTable<Context> = {
  readonly [Op in keyof DeviceOps]: (context: Context, ...input: Parameters<DeviceOps[Op]>) => void;
};

/** A class of devices: `context` is what all ops of one device share. */
export type OpsClass<Context> = new (context: Context) => DeviceOps;

/**
 * The class whose methods run the functions of `table`. They are bound once per device: a shared
 * forwarding method would see every op's function at its one call, which V8 does not inline.
 */
export function opsClass<Context>(table: OpTable<Context>): OpsClass<Context> {
  const functions: Readonly<Record<string, (context: Context, input: never) => void>> = table;
  class Ops {
    constructor(context: Context) {
      for (const [op, run] of Object.entries(functions)) {
        const value = run.bind(null, context);
        // Writable, so that a measurement can record what an op is given.
        Object.defineProperty(this, op, { value, writable: true });
      }
    }
  }
  // The table has every op, so each object has them; the compiler cannot follow the loop.
  return Ops as OpsClass<Context>;
}
