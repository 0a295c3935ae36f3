// Package mcp lets the model of an agent program use a daemon: seven tools of the Model Context
// Protocol (MCP), served to one session on standard input and output, or to clients on loopback.
//
// What the package guarantees:
//
//   - It uses the agents' socket alone, and so can do what agents do and nothing that
//     administers the daemon.
//   - Peer text reaches the model only as [client.RenderPeerMessage] wrote it, also where it is
//     cut into pages.
//   - A call names the message that led to it, so that chains of calls between sessions end even if
//     no model thinks of it. That is the message that the model names, else the newest that was shown
//     in the last ten minutes, if the daemon still knows it, else the one that the program works for.
//     A call names none if the model says that its user asked.
//   - No peer hides another's message, however much it sends.
//   - A message counts as shown when the page with it is returned. A message that was shown to its end
//     wakes the session no more.
//   - Only acp_reply, or the agent program's own reply, answers a message: what else the model
//     says to its user goes to no peer. acp_query, acp_delegate and acp_notify send what the
//     model gives them.
//   - A call that waits ends after 45 s at most, and goes on under its id. Everything that is
//     kept here is bounded, and ends with the session.
//   - A failure is a result with a code, a message and what to do next.
//
// It leaves to package harness how a session is woken, and to the daemon whether it may be.
package mcp
