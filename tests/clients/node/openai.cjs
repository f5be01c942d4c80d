// Tests the openai package. Arguments: the URL, the model and, optionally, the model's output.

const assert = require("node:assert/strict");
const OpenAI = require("openai");

const [url, model, text] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "x", maxRetries: 0 });
const request = { model, input: "Say hello.", max_output_tokens: 24 };

function check(response) {
  assert.equal(response.object, "response");
  assert.ok(["completed", "incomplete"].includes(response.status), response.status);
  assert.ok(response.usage.output_tokens > 0);
  assert.ok(response.output_text.length > 0);
  if (text !== undefined) assert.equal(response.output_text, text);
}

async function create() {
  const { data, request_id } = await client.responses.create(request).withResponse();
  assert.match(request_id, /^req_/);
  check(data);
  return data;
}

async function retrieve(created) {
  const stored = await client.responses.retrieve(created.id);
  check(stored);
  assert.deepEqual(stored.output, created.output);
  const items = await client.responses.inputItems.list(created.id);
  assert.equal(items.data[0].content[0].text, request.input);
  const next = await client.responses.create({ ...request, previous_response_id: created.id });
  assert.equal(next.previous_response_id, created.id);
}

async function stream() {
  let deltas = "";
  const events = client.responses.stream(request);
  events.on("response.output_text.delta", (event) => {
    deltas += event.delta;
    assert.equal(event.snapshot, deltas);
  });
  const names = [];
  for await (const event of events) names.push(event.type);
  const response = await events.finalResponse();
  check(response);
  assert.equal(response.output_text, deltas);
  assert.equal(names[0], "response.created");
  assert.equal(names.at(-1), `response.${response.status}`);
  const stored = await client.responses.retrieve(response.id);
  assert.equal(stored.output_text, deltas);
  assert.deepEqual(stored.output.map((item) => item.id), response.output.map((item) => item.id));
}

async function chat() {
  const messages = [{ role: "user", content: "Say hello." }];
  const runner = client.chat.completions.stream({ model, messages, max_completion_tokens: 24 });
  const completion = await runner.finalChatCompletion();
  assert.ok(completion.choices[0].message.content.length > 0);
  if (text !== undefined) assert.equal(completion.choices[0].message.content, text);
}

async function errors() {
  await assert.rejects(client.responses.create({ ...request, model: "none" }), (error) => {
    return error instanceof OpenAI.NotFoundError && error.code === "model_not_found" && error.param === "model";
  });
  await assert.rejects(client.responses.retrieve("resp_1"), OpenAI.NotFoundError);
}

async function main() {
  await retrieve(await create());
  await stream();
  await chat();
  await errors();
  console.log("fine");
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
