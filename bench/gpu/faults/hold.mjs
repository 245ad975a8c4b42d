// node hold.mjs BYTES: another process, which leaves so little of the GPU to others, until it ends.
import { openOrGiveUp } from "../gpu-bench.mjs";
import { hold } from "./context.mjs";

const { availableBytes } = await openOrGiveUp(() => hold(Number(process.argv[2])));
console.log(`${availableBytes} bytes are left`);
setInterval(() => {}, 1000);
