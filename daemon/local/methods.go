package local

import (
	"context"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/disk"
)

// Method is a method of the local API.
type Method struct {
	Serve     func(context.Context, *Conn, *jsonrpc.Request) (any, error)
	ForGuests bool // guests may call it too; else only the owner may, who may call all methods
}

// MaxFilterItems bounds each list of a filter.
const MaxFilterItems = 64

// NoParams is the type of the params of a method without params.
type NoParams = struct{}

// ForOwner returns a method that reads its params and calls f with them. Only the owner may call it,
// on acp.sock of the state directory.
func ForOwner[P any](f func(context.Context, *Conn, *P) (any, error)) Method {
	return Method{Serve: func(ctx context.Context, c *Conn, r *jsonrpc.Request) (any, error) {
		p := new(P)
		if err := r.ReadParams(p); err != nil {
			return nil, err
		}
		return f(ctx, c, p)
	}}
}

// ForAgents returns a method as [ForOwner] does, but guests may call it too, on acp.sock of the agents'
// folder.
func ForAgents[P any](f func(context.Context, *Conn, *P) (any, error)) Method {
	m := ForOwner(f)
	m.ForGuests = true
	return m
}

// WithVerbatimPayloads returns m, but the payloads in its result keep the text that their senders
// wrote.
func (m Method) WithVerbatimPayloads() Method {
	serve := m.Serve
	m.Serve = func(ctx context.Context, c *Conn, r *jsonrpc.Request) (any, error) {
		result, err := serve(ctx, c, r)
		if err != nil {
			return nil, err
		}
		return MarshalVerbatimJSON(result)
	}
	return m
}

// WithDiskReserve returns m, but what it writes may use the reserve: it frees space. It may wait for
// nothing but this daemon's disk.
func (m Method) WithDiskReserve(reserve *disk.Reserve) Method {
	serve := m.Serve
	m.Serve = func(ctx context.Context, c *Conn, r *jsonrpc.Request) (result any, err error) {
		err = reserve.RunWithReserve(func() (err error) {
			result, err = serve(ctx, c, r)
			return err
		})
		return result, err
	}
	return m
}

// MarshalVerbatimJSON returns v as JSON. The payloads in it keep the text that their senders wrote.
func MarshalVerbatimJSON(v any) (jsontext.Value, error) {
	return json.Marshal(v, jsontext.PreserveRawStrings(true))
}
