// node hold.mjs BYTES: another process that leaves so little of the GPU's memory, until it is ended.
import { hold } from "./context.mjs";

const { availableBytes } = hold(Number(process.argv[2]));
console.log(`${availableBytes} bytes are left`);
setInterval(() => {}, 1000);
