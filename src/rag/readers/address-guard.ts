/** Which addresses of the network may be read: public ones, and those that were named. */
import { lookup } from "node:dns/promises";
import { BlockList, isIP } from "node:net";

/** An address of the network, as `dns.lookup` gives it. */
export interface NetworkAddress {
  readonly address: string;
  readonly family: number;
}

/** All addresses of a host's name. */
export type Resolve = (host: string) => Promise<readonly NetworkAddress[]>;

/** The resolver of the system. */
export const systemResolve: Resolve = (host) => lookup(host, { all: true });

/** Of IANA's registry of special purposes: no host of the public network has one of these. */
const SPECIAL_4: readonly (readonly [string, number])[] = [
  ...([
    ["0.0.0.0", 8],
    ["10.0.0.0", 8],
    ["100.64.0.0", 10],
    ["127.0.0.0", 8],
  ] as const),
  ...([
    ["169.254.0.0", 16],
    ["172.16.0.0", 12],
    ["192.0.0.0", 24],
    ["192.0.2.0", 24],
  ] as const),
  ...([
    ["192.88.99.0", 24],
    ["192.168.0.0", 16],
    ["198.18.0.0", 15],
  ] as const),
  ...([
    ["198.51.100.0", 24],
    ["203.0.113.0", 24],
    ["224.0.0.0", 4],
    ["240.0.0.0", 4],
  ] as const),
];
/** Within 2000::/3: protocols, Teredo, documentation and 6to4, whose hosts have IPv4 addresses. */
const SPECIAL_6: readonly (readonly [string, number])[] = [
  ...([
    ["2001::", 23],
    ["2001:db8::", 32],
    ["2002::", 16],
    ["3fff::", 20],
  ] as const),
];

const special = new BlockList();
for (const [net, bits] of SPECIAL_4) special.addSubnet(net, bits, "ipv4");
for (const [net, bits] of SPECIAL_6) special.addSubnet(net, bits, "ipv6");
const global6 = new BlockList();
global6.addSubnet("2000::", 3, "ipv6");

/**
 * Whether an address is one of the public network. IPv4 within IPv6 (`::ffff:10.0.0.1`, NAT64,
 * 6to4) is none, whatever it holds: public hosts have addresses of their own.
 */
export function isPublicAddress(address: string): boolean {
  const family = isIP(address);
  if (family === 4) return !special.check(address, "ipv4");
  return family === 6 && global6.check(address, "ipv6") && !special.check(address, "ipv6");
}
