// Reads a UI message stream from stdin as a client of the AI SDK does, and prints what it made of it.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.AI_SDK + "/package.json");
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { uiMessageChunkSchema, readUIMessageStream } = await load("ai");
const { parseJsonEventStream } = await load("@ai-sdk/provider-utils");

const bytes = new ReadableStream({
  async start(controller) {
    for await (const chunk of process.stdin) controller.enqueue(new Uint8Array(chunk));
    controller.close();
  },
});
const problems = [];
const chunks = parseJsonEventStream({ stream: bytes, schema: uiMessageChunkSchema }).pipeThrough(
  new TransformStream({
    transform(part, controller) {
      if (part.success) controller.enqueue(part.value);
      else problems.push(String(part.error));
    },
  }),
);
let last = null;
try {
  for await (const message of readUIMessageStream({
    stream: chunks,
    onError: (error) => problems.push(String(error)),
  }))
    last = message;
} catch (error) {
  problems.push(String(error));
}
console.log(JSON.stringify({ message: last, problems }));
