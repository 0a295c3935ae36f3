// Package api is the HTTP API of channels, in front of the engine of package openintent.
//
// # Guarantees
//
// The table of routes is the one description of the API. It says what is served, what names the
// host that answers, and which method of the engine does the work; the OpenAPI document is made
// of it. Every answer is JSON or an event stream, and every refusal {"detail", "message", "error"}.
// A handler that panics ends only its request.
//
// # What it leaves to others
//
// The rules of channels are package openintent's. A function that [NewAPI] is given passes on
// requests about intents of other hosts. A function that [API.NewHandler] is given says who the
// caller is: [IdentifyLocalCaller], [NewKeyIdentifier], [NewAgentIdentifier], or one that uses [IdentifyRemoteCaller].
package api
