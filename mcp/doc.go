// Package mcp lets the model of an agent program use a daemon: eight tools of the Model Context
// Protocol (MCP), served to one session on standard input and output, or to clients on loopback.
//
// The package guarantees:
//
//   - It uses only the agents' socket, so it can do what agents do, and nothing that administers the
//     daemon.
//   - Of a file, results have only the name and what its sender says of it, not the content. Files are read and
//     written only below the session's folder, without following links: see openToSend and makeTakenFolder.
//   - The model reads a peer's text only as [client.RenderPeerMessage] wrote it, on every page.
//   - A call names the message that led to it, so that a chain of calls between sessions ends even if
//     no model thinks of that. The model names the message. If it names none, the call follows from the
//     newest message that was shown in the last ten minutes and that the daemon still knows, else from
//     the one that the program works for. If its user asked for the call, it follows from none.
//   - No peer can hide another's message by sending many.
//   - A message was shown when the page with it is returned. A message that was shown to its end does
//     not wake the session.
//   - A wake is answered when the program has taken the line, or will not take it. Until then it waits
//     for the end of the turn before.
//   - Only acp_reply and the agent program's own reply answer a message. Text that the model writes for
//     its user is sent to no peer. acp_query, acp_delegate and acp_notify send what the model gives them.
//   - A call that waits ends after at most 45 s, and continues under its id. Everything that is kept
//     here is bounded, and ends with the session.
//   - A failure is a result with a code, a message and what to do next.
//
// Package harness knows how a session is woken, and the daemon decides whether it may be. The daemon also
// knows which messages of the inbox the session was shown; what calls and replies follow from is kept here,
// because a session outlasts the daemon and several runs of acpctl serve can be one agent.
package mcp
