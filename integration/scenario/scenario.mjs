// Does what desk.go wants, with the types of the description: scenario.mjs NAME
// @ts-check
import { createConnection } from "node:net";
import { createInterface } from "node:readline";

/** @typedef {import("../../examples/node/local-api.d.ts").Methods} Methods */
/** @typedef {import("../../examples/node/local-api.d.ts").AgentMethods} AgentMethods */
/** @typedef {import("../../examples/node/local-api.d.ts").ErrorData} ErrorData */

const name = process.argv[2];
const socket = createConnection(/** @type {string} */ (process.env.ACP_SOCKET));
/** @type {Map<number, {resolve: (result: any) => void, reject: (error: ErrorData) => void}>} */
const calls = new Map();
let last = 0;

/** @param {object} message */
const send = (message) => socket.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

/**
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["params"]} params
 * @returns {Promise<Methods[M]["result"]>}
 */
const call = (method, params) =>
  new Promise((resolve, reject) => {
    calls.set(++last, { resolve, reject });
    send({ id: last, method, params });
  });

createInterface({ input: socket }).on("line", (line) => {
  const message = JSON.parse(line);
  if (message.method === "query") {
    const asked = /** @type {AgentMethods["query"]["params"]} */ (message.params);
    /** @type {AgentMethods["query"]["result"]} */
    const result = { summary: `${name} was asked by ${asked.name}: ${asked.payload.question}` };
    send({ id: message.id, result });
    return;
  }
  const waiting = calls.get(message.id);
  calls.delete(message.id);
  if (message.error) waiting?.reject(message.error.data);
  else waiting?.resolve(message.result);
});

/** @param {string} to @param {string} question */
const query = async (to, question) => (await call("query", { to, payload: { question } })).payload.summary;
/** @param {string} task */
const delegate = async (task) => (await call("delegate", { to: "desk", payload: { task } })).id;
const final = ["refused", "completed", "failed", "cancelled", "expired"];

await call("attach", { name, kinds: ["query"] });
console.log("who:", (await call("whoami", {})).name);
console.log("answer:", await query("desk/echo", 'é "1" 😀'));
console.log("answers:", (await Promise.all(["0", "0", "0"].map((n) => query("desk/echo", n)))).join(", "));
for (const [to, question] of [["nobody", "x"], ["desk/nobody", "x"], ["desk/echo", "busy"], ["desk/echo", ""]]) {
  await query(to, question).catch((/** @type {ErrorData} */ e) => console.log("error:", e.code, e.retryable, e.retry_after_ms ?? 0));
}
console.log("back:", await query("desk/echo", `ask ${name}`));

let id = await delegate("steps");
for (let seen = 0; ; ) {
  const task = await call("wait", { id, after_partials: seen });
  if (final.includes(task.state)) {
    const result = /** @type {import("../../examples/node/local-api.d.ts").Result} */ (task.result);
    console.log("result:", task.state, result.outcome, JSON.stringify(result.data));
    break;
  }
  console.log("progress:", task.partial?.outcome, task.partial?.progress);
  seen = task.partials ?? 0;
  await call("notify", { to: "desk", payload: { topic: "next", data: id } });
}
for (const task of ["fail", "refuse me"]) {
  const ended = await call("wait", { id: await delegate(task) });
  const error = /** @type {ErrorData} */ (ended.result);
  console.log("failed:", ended.state, error.code, error.message);
}
id = await delegate("for ever");
const { payload: ack } = await call("cancel", { ref: id });
console.log("cancelled:", ack?.accepted, (await call("wait", { id })).state);

const receipts = /** @type {import("../../examples/node/local-api.d.ts").Receipt[]} */ (
  await call("notify", { to: ["desk", "nobody"], payload: { topic: "nobody.takes.it" } })
);
console.log("receipts:", receipts[0].state, receipts[1].error?.code);
await query("desk/echo", `write ${name}`);
const { messages } = await call("inbox", { kinds: ["notify"] });
console.log("inbox:", messages.length, messages[0].agent === name, messages[0].envelope.payload.topic);
console.log("removed:", (await call("ack", { ids: [messages[0].envelope.id] })).removed);
socket.destroy();
