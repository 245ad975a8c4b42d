/**
 * Preloaded into a server (`node --import`): its connections get the smallest send buffers that
 * Linux gives. Loopback's own take some 2.6 MB before a writer hears that nobody reads, which is
 * thousands of tokens; a real network's take a few packets.
 */
import { Server } from "node:net";
import koffi from "koffi";

const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
/** Doubled by the system. */
const BUFFER_BYTES = 2304;

const setsockopt = koffi
  .load("libc.so.6")
  .func("int setsockopt(int, int, int, const int *, unsigned int)");
const { listen } = Server.prototype;

Server.prototype.listen = function listenWithSmallBuffers(...options) {
  // Accepted connections inherit it.
  this.once("listening", () => {
    const { fd } = this._handle;
    if (setsockopt(fd, SOL_SOCKET, SO_SNDBUF, [BUFFER_BYTES], 4) !== 0)
      throw new Error("setsockopt");
  });
  return listen.apply(this, options);
};
