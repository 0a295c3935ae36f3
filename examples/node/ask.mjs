#!/usr/bin/env node
// Asks several agents the same question at the same time, and prints their answers: ask.mjs QUESTION PEER…
// It exits with 1 if any of them failed.
// @ts-check
import { randomUUID } from "node:crypto";
import { createConnection } from "node:net";
import { homedir } from "node:os";
import { createInterface } from "node:readline";

/** @typedef {import("./local-api.d.ts").Methods["query"]} Query */

const [question, ...peers] = process.argv.slice(2);
if (!question || !peers.length) {
  console.error("usage: ask.mjs QUESTION PEER…");
  process.exit(2);
}
const path = process.env.ACP_SOCKET ?? `${homedir()}/.acp/agent/acp.sock`;
const socket = createConnection(path);
socket.on("error", (error) => {
  console.error(`no daemon at ${path}: ${error.message}: start acpd, or set ACP_SOCKET to its agent/acp.sock`);
  process.exit(1);
});
peers.forEach((to, id) => {
  /** @type {Query["params"]} */
  const params = { to, id: randomUUID(), payload: { question, deadline_ms: 60_000 } };
  socket.write(JSON.stringify({ jsonrpc: "2.0", id, method: "query", params }) + "\n");
});
/** @type {string[]} */
const said = [];
let missing = peers.length;
for await (const line of createInterface({ input: socket })) {
  const { id, result, error } = JSON.parse(line);
  if (error) process.exitCode = 1;
  said[id] = error ? `${error.message} (${error.data?.code})` : /** @type {Query["result"]} */ (result).payload.summary;
  if (--missing === 0) break;
}
if (missing) {
  console.error("the daemon went away: whether the peers have answered is unknown");
  process.exit(1);
}
socket.destroy();
peers.forEach((peer, i) => console.log(`${peer}: ${said[i].replace(/\p{C}/gu, " ")}`)); // without what would steer a terminal
