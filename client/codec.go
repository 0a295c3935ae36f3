package client

import "github.com/acpd/acpd/client/jsonrpc"

func (h Head) writeHead(m *jsonrpc.ObjectWriter) {
	m.WriteOptionalMessageID("id", h.ID)
	m.WriteOptionalString("thread", h.Thread)
	m.WriteOptionalMessageID("parent", h.Parent)
	if h.Guessed {
		m.WriteAny("guessed", true)
	}
}

func (h *Head) readHeadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "id":
		return v.ReadText(&h.ID)
	case "thread":
		return v.ReadString(&h.Thread)
	case "parent":
		return v.ReadText(&h.Parent)
	case "guessed":
		return v.ReadAny(&h.Guessed)
	}
	return jsonrpc.ErrUnknownMember
}

func (p QueryParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.writeHead(m)
	m.WriteOptionalString("to", p.To)
	m.WriteOptionalMessageID("ref", p.Ref)
	m.WritePayload(p.Payload)
	m.WriteOptionalUint("keep_ms", p.KeepMS)
}

func (p *QueryParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "to":
		return v.ReadString(&p.To)
	case "ref":
		return v.ReadText(&p.Ref)
	case "payload":
		return v.ReadPayload(&p.Payload)
	case "keep_ms":
		return v.ReadUint(&p.KeepMS)
	}
	return p.readHeadMember(name, v)
}

func (p DelegateParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.writeHead(m)
	m.WriteString("to", p.To)
	m.WritePayload(p.Payload)
	m.WriteOptionalUint("keep_ms", p.KeepMS)
}

func (p *DelegateParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "to":
		return v.ReadString(&p.To)
	case "payload":
		return v.ReadPayload(&p.Payload)
	case "keep_ms":
		return v.ReadUint(&p.KeepMS)
	}
	return p.readHeadMember(name, v)
}

func (p NotifyParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.writeHead(m)
	m.WriteAny("to", p.To)
	m.WritePayload(p.Payload)
	if p.Wait != nil {
		m.WriteAny("wait", *p.Wait)
	}
	m.WriteOptionalUint("keep_ms", p.KeepMS)
}

func (p *NotifyParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "to":
		return v.ReadAny(&p.To)
	case "payload":
		return v.ReadPayload(&p.Payload)
	case "wait":
		return v.ReadAny(&p.Wait)
	case "keep_ms":
		return v.ReadUint(&p.KeepMS)
	}
	return p.readHeadMember(name, v)
}

func (p ResultParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	p.writeHead(m)
	m.WriteMessageID("ref", p.Ref)
	m.WritePayload(p.Payload)
}

func (p *ResultParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "ref":
		return v.ReadText(&p.Ref)
	case "payload":
		return v.ReadPayload(&p.Payload)
	}
	return p.readHeadMember(name, v)
}

func (a Answer) WriteMembers(m *jsonrpc.ObjectWriter) {
	m.WriteMessageID("id", a.ID)
	m.WritePeerID("from", a.From)
	m.WriteOptionalString("from_agent", a.FromAgent)
	m.WriteString("kind", a.Kind)
	m.WriteUint("rtt_us", a.RTTUS)
	m.WritePayload(a.Payload)
}

func (a *Answer) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "id":
		return v.ReadText(&a.ID)
	case "from":
		return v.ReadText(&a.From)
	case "from_agent":
		return v.ReadString(&a.FromAgent)
	case "kind":
		return v.ReadString(&a.Kind)
	case "rtt_us":
		return v.ReadUint(&a.RTTUS)
	case "payload":
		return v.ReadPayload(&a.Payload)
	}
	return jsonrpc.ErrUnknownMember
}

func (a PingAnswer) WriteMembers(m *jsonrpc.ObjectWriter) {
	a.Answer.WriteMembers(m)
	if a.TS > 0 {
		m.WriteUint("ts", a.TS)
	}
}

func (a *PingAnswer) ReadMember(name []byte, v jsonrpc.Value) error {
	if string(name) == "ts" {
		return v.ReadUint(&a.TS)
	}
	return a.Answer.ReadMember(name, v)
}

func (in Inbound) WriteMembers(m *jsonrpc.ObjectWriter) {
	m.WriteUint("v", in.V)
	m.WriteMessageID("id", in.ID)
	m.WritePeerID("from", in.From)
	m.WritePeerID("to", in.To)
	m.WriteUint("ts", in.TS)
	m.WriteString("kind", in.Kind)
	m.WriteNullableMessageID("ref", in.Ref)
	m.WritePayload(in.Payload)
	m.WriteOptionalString("trace", in.Trace)
	m.WriteOptionalString("agent", in.Agent)
	m.WriteOptionalString("thread", in.Thread)
	m.WriteOptionalUint("hops", in.Hops)
	m.WriteOptionalString("from_agent", in.FromAgent)
	m.WriteString("name", in.Name)
	m.WriteOptionalUint("deadline_ms", in.DeadlineMS)
	if in.Delegation != nil {
		m.WriteAny("delegation", in.Delegation)
	}
	if in.Wake != nil {
		m.WriteAny("wake", in.Wake)
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
	case "from_agent":
		return v.ReadString(&in.FromAgent)
	case "name":
		return v.ReadString(&in.Name)
	case "deadline_ms":
		return v.ReadUint(&in.DeadlineMS)
	case "delegation":
		return v.ReadAny(&in.Delegation)
	case "wake":
		return v.ReadAny(&in.Wake)
	}
	return jsonrpc.ErrUnknownMember
}
