// Package api is the HTTP API of channels, in front of the engine of package openintent.
//
// # Guarantees
//
// The table of routes is the one description of the API: what is served, what names the host
// that answers, and the OpenAPI document are made of it. A handler reads a request, calls one
// method of the engine and encodes what that returns. Every answer is JSON or an event stream,
// errors as {"detail", "message", "error"}. A handler that panics ends its request alone.
//
// # What it leaves to others
//
// The rules of channels (package openintent), and how a request about an intent of another
// host gets there: [Config.Forward]. Who the caller is says a function that the handler is
// given: [Local], [Keys], [Agents], or one that uses [Remote].
package api
