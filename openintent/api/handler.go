package api

import "github.com/acpd/acpd/openintent"

// handler does what a request asks for, and returns the body of the answer.
type handler func(*request) (any, error)

// newDecodingHandler makes a handler of a function that takes the body. The body is decoded unless that was
// done to find the host.
func newDecodingHandler[T any](do func(*request, *T) (any, error)) handler {
	return func(r *request) (any, error) {
		body, ok := r.input.(*T)
		if !ok {
			body = new(T)
			if err := r.decodeBody(body); err != nil {
				return nil, err
			}
		}
		return do(r, body)
	}
}

// newBodyHandler makes a handler of a method of the engine that takes the body.
func newBodyHandler[In, Out any](method func(*openintent.Call, *In) (Out, error)) handler {
	return newDecodingHandler(func(r *request, body *In) (any, error) { return method(r.Call, body) })
}

// newIDHandler makes a handler of a method of the engine that takes the first argument of the path.
func newIDHandler[Out any](method func(*openintent.Call, string) (Out, error)) handler {
	return func(r *request) (any, error) { return method(r.Call, r.args[0]) }
}

// newIDPairHandler makes a handler of a method of the engine that takes both arguments of the path.
func newIDPairHandler(method func(c *openintent.Call, intentID, id string) error) handler {
	return func(r *request) (any, error) { return nil, method(r.Call, r.args[0], r.args[1]) }
}

// newIDAndBodyHandler makes a handler of a method of the engine that takes the first argument of
// the path and the body.
func newIDAndBodyHandler[In, Out any](method func(*openintent.Call, string, *In) (Out, error)) handler {
	return newDecodingHandler(func(r *request, body *In) (any, error) { return method(r.Call, r.args[0], body) })
}

// newVersionedChangeHandler is newIDAndBodyHandler for a change of the version that the request names.
func newVersionedChangeHandler[In, Out any](method func(c *openintent.Call, id string, version func() (int64, error), body *In) (Out, error)) handler {
	return newDecodingHandler(func(r *request, body *In) (any, error) { return method(r.Call, r.args[0], r.readVersion, body) })
}
