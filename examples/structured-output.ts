// node examples/structured-output.ts: JSON that fits a schema, whatever the model prefers.
import { LLM } from "perigee";

const llm = await LLM.load();

const schema = {
  type: "object",
  properties: { name: { type: "string" }, city: { type: "string" }, age: { type: "integer" } },
  required: ["name", "city", "age"],
};
const text = "Mara Velten is 34 years old and lives in Korsby.";
const prompt = await llm.chatPrompt([
  { role: "user", content: `${text}\n\nReturn JSON with the keys name, city, age.` },
]);
const [result] = await llm.generate(prompt, {
  temperature: 0,
  maxTokens: 96,
  structuredOutput: { json: schema },
});
const person: { name: string; city: string; age: number } = JSON.parse(
  result?.completions[0]?.text ?? "",
);
console.log(`${person.name} from ${person.city} is ${person.age}`);

await llm.close();
