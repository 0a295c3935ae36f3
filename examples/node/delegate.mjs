#!/usr/bin/env node
// Gives an agent a task, prints its progress, and then the result: delegate.mjs PEER TASK
// It exits with 1 unless the task is completed.
// @ts-check
import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import { homedir } from "node:os";
import { createInterface } from "node:readline";

/** @typedef {import("./local-api.d.ts").Methods} Methods */

const [peer, task] = process.argv.slice(2);
if (!task) {
  console.error("usage: delegate.mjs PEER TASK");
  process.exit(2);
}
const path = process.env.ACP_SOCKET ?? `${homedir()}/.acp/agent/acp.sock`;
const socket = createConnection(path);
socket.on("error", (error) => {
  console.error(`no daemon at ${path}: ${error.message}: start acpd, or set ACP_SOCKET to its agent/acp.sock`);
  process.exit(1);
});
const lines = createInterface({ input: socket })[Symbol.asyncIterator]();

/**
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["params"]} params
 * @returns {Promise<Methods[M]["result"]>}
 */
async function call(method, params) {
  socket.write(JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) + "\n");
  const { value, done } = await lines.next();
  if (done) throw new Error(`${method}: the daemon went away before it answered: whether it took effect is unknown`);
  const { result, error } = JSON.parse(value);
  if (error) throw new Error(error.message);
  return result;
}

/** @param {string} text */
const show = (text) => text.replace(/\p{C}/gu, " "); // without what would steer a terminal

try {
  const id = randomUUID(); // a call that is repeated with the same id gives the task once
  const { payload: ack } = await call("delegate", { id, to: peer, payload: { task } });
  if (!ack.accepted) throw new Error(`refused: ${show(ack.message ?? "")}`);
  for (let seen = 0; ; ) {
    const status = await call("wait", { id, after_partials: seen });
    if (["completed", "failed", "cancelled", "expired", "refused"].includes(status.state)) {
      console.log(`${status.state}: ${show(status.outcome)}`);
      if (status.state !== "completed") process.exitCode = 1;
      await call("ack", { ref: id }); // the result was shown: it may leave the inbox
      break;
    }
    console.log(`progress: ${show(status.partial?.outcome ?? "")}`);
    seen = status.partials ?? 0;
  }
} catch (error) {
  console.error(show(error instanceof Error ? error.message : String(error)));
  process.exitCode = 1;
}
socket.destroy();
