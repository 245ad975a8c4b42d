/** Roles that workers are given: by an operator, or by the conductor. */
import type { Member, Membership, ToldRole, WorkerRole } from "#cluster/protocol";
import { computes } from "#cluster/routing";
import { HttpError } from "#server";
import type { RoleNews } from "./role-news.ts";
import type { WorkerLink } from "./worker-link.ts";
import type { WorkerLinks } from "./worker-links.ts";

export interface RoleOrdersOptions {
  readonly membership: Membership;
  readonly links: WorkerLinks;
  readonly news: RoleNews;
}

/** What became of each order, by id of its worker. */
export interface OrderedRoles {
  readonly roles: ReadonlyMap<string, ToldRole>;
  readonly errors: ReadonlyMap<string, Error>;
}

/**
 * One list of orders at a time, those that add to the workers that answer first: each is checked
 * against the fleet as it is then, and the last worker that answers a model stays.
 */
export class RoleOrders {
  readonly #options: RoleOrdersOptions;
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: RoleOrdersOptions) {
    this.#options = options;
  }

  /** Never rejects. `isFenced`: a worker that was given another role meanwhile keeps it. */
  give(orders: ReadonlyMap<string, WorkerRole>, { isFenced = false } = {}): Promise<OrderedRoles> {
    const done = this.#last.then(() => this.#give(orders, isFenced));
    this.#last = done;
    return done;
  }

  async #give(orders: ReadonlyMap<string, WorkerRole>, isFenced: boolean): Promise<OrderedRoles> {
    const roles = new Map<string, ToldRole>();
    const errors = new Map<string, Error>();
    const change = async ([id, role]: readonly [string, WorkerRole]) => {
      try {
        roles.set(id, await this.#change(id, role, isFenced));
      } catch (error) {
        errors.set(id, error instanceof Error ? error : new Error(String(error)));
      }
    };
    const all = [...orders];
    await Promise.all(all.filter(([, role]) => role !== "prefill").map(change));
    for (const order of all) if (order[1] === "prefill") await change(order);
    return { roles, errors };
  }

  async #change(id: string, role: WorkerRole, isFenced: boolean): Promise<ToldRole> {
    const { membership, links, news } = this.#options;
    const link = links.find(id);
    const member = membership.workers.get(id);
    if (link === null || member === undefined) throw unknown(id, membership);
    if (role === "prefill") this.#checkLast(member);
    return await news.change(link, role, isFenced);
  }

  #checkLast({ info }: Member): void {
    if (info.role === "prefill" || !computes(info)) return;
    const { membership, links } = this.#options;
    const others = [...membership.workers.values()].filter(
      (other) => other.info.id !== info.id && answers(other, links.find(other.info.id)),
    );
    const lost = info.models.find((model) =>
      others.every((other) => !other.info.models.includes(model)),
    );
    if (lost === undefined) return;
    throw new HttpError(
      409,
      "last_worker",
      `Cannot change role of worker ${info.id} to prefill: another ready worker must answer ` +
        `${lost}, current value is none; start one, or give another one the role decode or both`,
    );
  }
}

/** Whether it takes requests whose answers are its own. */
function answers({ info, state }: Member, link: WorkerLink | null): boolean {
  return (
    info.role !== "prefill" && computes(info) && state === "ready" && link?.breaker.admits === true
  );
}

const SHOWN = 10;

function unknown(id: string, { workers }: Membership): Error {
  const known = [...workers.keys()].slice(0, SHOWN).join(", ");
  return new HttpError(
    404,
    "worker_not_found",
    `Cannot change role: \`${id.slice(0, 100)}\` must be a worker that this router knows, ` +
      `which are ${known === "" ? "none" : known}; see /server_info`,
  );
}
