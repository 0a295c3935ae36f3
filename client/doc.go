// Package client is the local API of acpd as a Go program sees it.
//
// It owns the params and results of every method, declared once and used by the
// daemon too; [Client], which calls a daemon, attaches an agent to it and finds it
// again after a restart; and how text from peers is shown ([Text]). Package
// client/jsonrpc is the connection beneath it.
//
// It guarantees that a call ends with an answer or an error that says what is
// known of the message: nothing is repeated behind the caller's back. What a handler sends with its
// context follows from the message that the handler got. It leaves
// to the daemon what the methods do, and to package kinds what payloads mean:
// here a payload is text that is passed through.
package client
