// Package jsonrpc is a connection that speaks JSON-RPC 2.0, one object on each line.
// The daemon and its clients use it at the two ends of the socket, and both may call.
//
// It owns how lines are cut, scanned and written ([Conn]), how requests are served
// ([Request]), and what bounds unfinished lines and requests of many connections
// ([InputLimit], [RequestLimit]). It guarantees that a call ends with an answer or with an
// error that says what is known of its delivery. Its only method is rpc.cancel.
package jsonrpc
