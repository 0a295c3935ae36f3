package client

import "github.com/acpd/acpd/client/jsonrpc"

func (h Head) appendHead(m *jsonrpc.ObjectWriter) {
	m.OptionalMessageID("id", h.ID)
	m.OptionalString("thread", h.Thread)
	m.OptionalMessageID("parent", h.Parent)
}

func (h *Head) headMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "id":
		return v.ReadText(&h.ID)
	case "thread":
		return v.ReadString(&h.Thread)
	case "parent":
		return v.ReadText(&h.Parent)
	}
	return jsonrpc.ErrUnknownMember
}

func (p QueryParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.appendHead(m)
	m.String("to", p.To)
	m.Payload(p.Payload)
}

func (p *QueryParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "to":
		return v.ReadString(&p.To)
	case "payload":
		return v.ReadPayload(&p.Payload)
	}
	return p.headMember(name, v)
}

func (p NotifyParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.appendHead(m)
	m.Any("to", p.To)
	m.Payload(p.Payload)
	if p.Wait != nil {
		m.Any("wait", *p.Wait)
	}
}

func (p *NotifyParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "to":
		return v.ReadAny(&p.To)
	case "payload":
		return v.ReadPayload(&p.Payload)
	case "wait":
		return v.ReadAny(&p.Wait)
	}
	return p.headMember(name, v)
}

func (p ResultParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.appendHead(m)
	m.MessageID("ref", p.Ref)
	m.Payload(p.Payload)
}

func (p *ResultParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "ref":
		return v.ReadText(&p.Ref)
	case "payload":
		return v.ReadPayload(&p.Payload)
	}
	return p.headMember(name, v)
}

func (a Answer) WriteMembers(m *jsonrpc.ObjectWriter) {
	m.MessageID("id", a.ID)
	m.PeerID("from", a.From)
	m.String("kind", a.Kind)
	m.Uint("rtt_us", a.RTTUS)
	m.Payload(a.Payload)
}

func (a *Answer) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "id":
		return v.ReadText(&a.ID)
	case "from":
		return v.ReadText(&a.From)
	case "kind":
		return v.ReadString(&a.Kind)
	case "rtt_us":
		return v.ReadUint(&a.RTTUS)
	case "payload":
		return v.ReadPayload(&a.Payload)
	}
	return jsonrpc.ErrUnknownMember
}

func (in Inbound) WriteMembers(m *jsonrpc.ObjectWriter) {
	m.Uint("v", in.V)
	m.MessageID("id", in.ID)
	m.PeerID("from", in.From)
	m.PeerID("to", in.To)
	m.Uint("ts", in.TS)
	m.String("kind", in.Kind)
	m.NullableMessageID("ref", in.Ref)
	m.Payload(in.Payload)
	m.OptionalString("trace", in.Trace)
	m.OptionalString("agent", in.Agent)
	m.OptionalString("thread", in.Thread)
	m.OptionalUint("hops", in.Hops)
	m.String("name", in.Name)
	m.OptionalUint("deadline_ms", in.DeadlineMS)
	if in.Delegation != nil {
		m.Any("delegation", in.Delegation)
	}
}

func (in *Inbound) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "v":
		return v.ReadUint(&in.V)
	case "id":
		return v.ReadText(&in.ID)
	case "from":
		return v.ReadText(&in.From)
	case "to":
		return v.ReadText(&in.To)
	case "ts":
		return v.ReadUint(&in.TS)
	case "kind":
		return v.ReadString(&in.Kind)
	case "ref":
		return v.ReadNullableMessageID(&in.Ref)
	case "payload":
		return v.ReadPayload(&in.Payload)
	case "trace":
		return v.ReadString(&in.Trace)
	case "agent":
		return v.ReadString(&in.Agent)
	case "thread":
		return v.ReadString(&in.Thread)
	case "hops":
		return v.ReadUint(&in.Hops)
	case "name":
		return v.ReadString(&in.Name)
	case "deadline_ms":
		return v.ReadUint(&in.DeadlineMS)
	case "delegation":
		return v.ReadAny(&in.Delegation)
	}
	return jsonrpc.ErrUnknownMember
}
