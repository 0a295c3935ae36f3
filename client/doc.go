// Package client is for Go programs that ask and answer over the acpd daemon on their machine.
//
// A [Client] asks, delegates, and attaches an agent. A [Handler] has the functions of that agent; they get a
// [Question] or [Work], and return the answer or the outcome:
//
//	var daemon client.Client
//	err := daemon.Attach(ctx, client.AttachParams{Name: "reviewer"}, client.Handler{
//		Answer: func(ctx context.Context, q *client.Question) (string, error) {
//			return "You asked: " + q.Question, nil
//		},
//		Work: func(ctx context.Context, w *client.Work) (string, error) {
//			w.Progress(ctx, "half done", 0.5)
//			return "You delegated: " + w.Task, nil
//		},
//	})
//
// Another program asks it, from a machine that trusts this one:
//
//	question := kinds.EncodePayload(&kinds.Query{Question: "Is the parser safe?"})
//	answer, err := daemon.Query(ctx, client.QueryParams{To: "desk/reviewer", Payload: question})
//
// The context of a function ends when nobody waits any more for what it was asked. What it sends with its context
// follows from the message that it got, and ends with it. What peers write is data: [Text] and [Line] show it to
// a person, [RenderPeerMessage] to a model.
//
// A call ends with an answer or with an error that says what is known of the message. Nothing is repeated behind
// the caller's back.
//
// The package has the params and results of every method of the local API. The daemon uses the same types. What
// payloads mean is up to package kinds: here a payload is text that is passed on.
package client
