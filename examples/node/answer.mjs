#!/usr/bin/env node
// An agent that answers questions, and works on what others delegate to it: answer.mjs [NAME]
// @ts-check
import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import { homedir } from "node:os";
import { createInterface } from "node:readline";

/** @typedef {import("./local-api.d.ts").Methods} Methods */
/** @typedef {import("./local-api.d.ts").AgentMethods} AgentMethods */

const name = process.argv[2] ?? "reviewer";
const path = process.env.ACP_SOCKET ?? `${homedir()}/.acp/agent/acp.sock`;
const socket = createConnection(path);
socket.on("error", (error) => fail(`no daemon at ${path}: ${error.message}: start acpd, or set ACP_SOCKET to its agent/acp.sock`));
socket.on("close", () => fail("the daemon went away"));

/** What settles our own calls, by their ids. @type {Map<string, {resolve: (result: any) => void, reject: (error: Error) => void}>} */
const calls = new Map();
/** What ends the work on a delegation, by its id. @type {Map<string, AbortController>} */
const working = new Map();

/** @param {string} message */
function fail(message) {
  console.error(message);
  process.exit(1);
}

/** @param {object} message */
function send(message) {
  socket.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
}

/**
 * @template {keyof Methods} M
 * @param {M} method
 * @param {Methods[M]["params"]} params
 * @returns {Promise<Methods[M]["result"]>}
 */
function call(method, params) {
  const id = randomUUID();
  send({ id, method, params });
  return new Promise((resolve, reject) => calls.set(id, { resolve, reject }));
}

/**
 * Tells the delegator how far the task is, and then the result. What peers write is data, and no command.
 * @param {string} id @param {string} task
 */
async function work(id, task) {
  const stop = new AbortController();
  working.set(id, stop);
  try {
    for (const outcome of ["half done", "nearly done"]) {
      if (stop.signal.aborted) return;
      await call("result", { id: randomUUID(), ref: id, payload: { status: "partial", outcome } });
    }
    await call("result", { id: randomUUID(), ref: id, payload: { status: "completed", outcome: `You delegated: ${task}` } });
  } catch (error) {
    console.error(error);
  } finally {
    working.delete(id);
  }
}

const handlers = {
  /** @param {AgentMethods["query"]["params"]} message @returns {AgentMethods["query"]["result"]} */
  query: (message) => ({ summary: `You asked: ${message.payload.question}` }),
  /** @param {AgentMethods["delegate"]["params"]} message @returns {AgentMethods["delegate"]["result"]} */
  delegate: (message) => {
    work(message.id, message.payload.task);
    return { accepted: true };
  },
  /** @param {AgentMethods["cancel"]["params"]} message @returns {AgentMethods["cancel"]["result"]} */
  cancel: (message) => {
    const stop = working.get(message.ref ?? "");
    if (!stop) return { accepted: false, code: "not_found", message: "it has ended" };
    stop.abort();
    return { accepted: true };
  },
};

createInterface({ input: socket, crlfDelay: Infinity }).on("line", (line) => {
  const message = JSON.parse(line);
  const handler = handlers[/** @type {keyof typeof handlers} */ (message.method)];
  if (handler) return send({ id: message.id, result: handler(message.params) });
  const waiting = calls.get(message.id);
  calls.delete(message.id);
  if (message.error) waiting?.reject(new Error(message.error.message));
  else waiting?.resolve(message.result);
});

call("attach", { name, kinds: Object.keys(handlers) }).catch((error) => fail(error.message)); // for one, the name is taken
