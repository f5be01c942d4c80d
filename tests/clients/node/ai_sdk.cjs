// Tests Vercel's AI SDK. Arguments: the URL, the model and, optionally, the model's output.

const assert = require("node:assert/strict");
const { createOpenAI } = require("@ai-sdk/openai");
const { generateText, streamText } = require("ai");

const [url, name, text] = process.argv.slice(2);
const model = createOpenAI({ baseURL: `${url}/v1`, apiKey: "x" }).responses(name);
const settings = { model, maxOutputTokens: 24, maxRetries: 0 };
const reasons = ["stop", "length"];

function check(answer, usage, reason) {
  assert.ok(answer.length > 0);
  if (text !== undefined) assert.equal(answer, text);
  assert.ok(usage.inputTokens > 0 && usage.outputTokens > 0, JSON.stringify(usage));
  assert.ok(reasons.includes(reason), reason);
}

async function generate() {
  const result = await generateText({ ...settings, system: "Be brief.", prompt: "Say hello.", temperature: 0 });
  check(result.text, result.usage, result.finishReason);
  assert.match(result.providerMetadata.openai.responseId, /^resp_/);
  return result.providerMetadata.openai.responseId;
}

async function continued(previousResponseId) {
  const providerOptions = { openai: { previousResponseId } };
  const result = await generateText({ ...settings, prompt: "Go on.", providerOptions });
  check(result.text, result.usage, result.finishReason);
}

// With `store: false` the SDK sends the whole conversation.
async function resent() {
  const providerOptions = { openai: { store: false } };
  const messages = [{ role: "user", content: "Say hello." }];
  const first = await generateText({ ...settings, messages, providerOptions });
  messages.push(...first.response.messages, { role: "user", content: "Again." });
  const second = await generateText({ ...settings, messages, providerOptions });
  check(second.text, second.usage, second.finishReason);
  assert.ok(second.usage.inputTokens > first.usage.inputTokens);
}

async function stream() {
  const result = streamText({ ...settings, prompt: "Say hello.", onError: () => {} });
  const kinds = new Set();
  let deltas = "";
  for await (const part of result.fullStream) {
    kinds.add(part.type);
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") deltas += part.text;
  }
  check(deltas, await result.usage, await result.finishReason);
  for (const kind of ["text-start", "text-delta", "text-end", "finish"]) assert.ok(kinds.has(kind), kind);
}

async function errors() {
  const call = generateText({ ...settings, prompt: "x", providerOptions: { openai: { previousResponseId: "resp_1" } } });
  await assert.rejects(call, (error) => error.statusCode === 400 && error.message.length > 0);
}

async function main() {
  await continued(await generate());
  await resent();
  await stream();
  await errors();
  console.log("fine");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
