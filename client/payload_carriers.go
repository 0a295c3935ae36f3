package client

import (
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/wire"
)

// The types of frequent messages carry their payload as its sender wrote it. A large payload is
// then not parsed at each end of the socket.
var (
	_ jsonrpc.PayloadCarrier = (*QueryParams)(nil)
	_ jsonrpc.PayloadCarrier = (*DelegateParams)(nil)
	_ jsonrpc.PayloadCarrier = (*NotifyParams)(nil)
	_ jsonrpc.PayloadCarrier = (*ResultParams)(nil)
	_ jsonrpc.PayloadCarrier = (*Answer)(nil)
	_ jsonrpc.PayloadCarrier = (*PingAnswer)(nil)
	_ jsonrpc.PayloadCarrier = (*Inbound)(nil)
)

func (p *QueryParams) PayloadField() *wire.Payload    { return &p.Payload }
func (p *DelegateParams) PayloadField() *wire.Payload { return &p.Payload }
func (p *NotifyParams) PayloadField() *wire.Payload   { return &p.Payload }
func (p *ResultParams) PayloadField() *wire.Payload   { return &p.Payload }
func (a *Answer) PayloadField() *wire.Payload         { return &a.Payload }
func (in *Inbound) PayloadField() *wire.Payload       { return &in.Payload }
