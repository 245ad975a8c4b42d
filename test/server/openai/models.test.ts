import { expect, test } from "vitest";
import { closeToyServers, serveToy } from "../../support/toy-server.ts";

closeToyServers();

test("the served model is listed and can be asked for by name", async () => {
  const { client } = await serveToy();
  const list = await client.models.list();
  expect(list.data).toMatchObject([
    { id: "toy", object: "model", owned_by: "perigee", max_model_len: 4096 },
  ]);
  expect(await client.models.retrieve("toy")).toMatchObject({ id: "toy" });
  await expect(client.models.retrieve("other")).rejects.toMatchObject({ status: 404 });
});

test("served names replace the model's own, slashes and all", async () => {
  const { client } = await serveToy({}, { servedModelName: ["ORG/NAME", "alias"] });
  const { data } = await client.models.list();
  expect(data.map(({ id }) => id)).toEqual(["ORG/NAME", "alias"]);
  expect((await client.models.retrieve("ORG/NAME")).id).toBe("ORG/NAME");
  const answer = await client.completions.create({ model: "alias", prompt: "a" });
  expect(answer.model).toBe("alias");
  await expect(client.completions.create({ model: "toy", prompt: "a" })).rejects.toMatchObject({
    status: 404,
  });
});
