// Package client is for Go programs that ask and answer over the acpd daemon on their machine.
//
// A [Client] asks, delegates, and attaches an agent. A [Handler] has the functions of that agent: they get a
// [Question] or [Work], and return the answer or the outcome.
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
// A program on a machine that trusts this one asks it:
//
//	question := kinds.EncodePayload(&kinds.Query{Question: "Is the parser safe?"})
//	answer, err := daemon.Query(ctx, client.QueryParams{To: "desk/reviewer", Payload: question})
//
// The context of a function ends when nobody waits for its answer any more. Calls that the function makes with its
// context follow from the message that it got, and end with that context.
//
// Everything that peers write is data: [Text] and [Line] show it to a person, [RenderPeerMessage] to a model.
//
// A call ends with an answer, or with an error that says whether the message was delivered. The package never repeats
// a call by itself. With KeepMS the daemon keeps a message that did not arrive: then [FindKept] reads that from the error,
// and [Client.Wait] waits for its end.
//
// The package has the params and results of every method of the local API; the daemon uses the same types. Package
// kinds says what payloads mean: here a payload is text that is passed on.
package client
