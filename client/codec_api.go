package client

func (h Head) appendHead(m *members) {
	m.optID("id", h.ID)
	m.optStr("thread", h.Thread)
	m.optID("parent", h.Parent)
}

func (h *Head) headMember(name []byte, v value) error {
	switch string(name) {
	case "id":
		return v.text(&h.ID)
	case "thread":
		return v.str(&h.Thread)
	case "parent":
		return v.text(&h.Parent)
	}
	return errUnknown
}

func (p QueryParams) appendTo(m *members) {
	p.appendHead(m)
	m.str("to", p.To)
	m.payload(p.Payload)
}

func (p *QueryParams) member(name []byte, v value) error {
	switch string(name) {
	case "to":
		return v.str(&p.To)
	case "payload":
		return v.payload(&p.Payload)
	}
	return p.headMember(name, v)
}

func (p NotifyParams) appendTo(m *members) {
	p.appendHead(m)
	m.other("to", p.To)
	m.payload(p.Payload)
	if p.Wait != nil {
		m.other("wait", *p.Wait)
	}
}

func (p *NotifyParams) member(name []byte, v value) error {
	switch string(name) {
	case "to":
		return v.other(&p.To)
	case "payload":
		return v.payload(&p.Payload)
	case "wait":
		return v.other(&p.Wait)
	}
	return p.headMember(name, v)
}

func (p ResultParams) appendTo(m *members) {
	p.appendHead(m)
	m.id("ref", p.Ref)
	m.payload(p.Payload)
}

func (p *ResultParams) member(name []byte, v value) error {
	switch string(name) {
	case "ref":
		return v.text(&p.Ref)
	case "payload":
		return v.payload(&p.Payload)
	}
	return p.headMember(name, v)
}

func (a Answer) appendTo(m *members) {
	m.id("id", a.ID)
	m.peer("from", a.From)
	m.str("kind", a.Kind)
	m.uint("rtt_us", a.RTTUS)
	m.payload(a.Payload)
}

func (a *Answer) member(name []byte, v value) error {
	switch string(name) {
	case "id":
		return v.text(&a.ID)
	case "from":
		return v.text(&a.From)
	case "kind":
		return v.str(&a.Kind)
	case "rtt_us":
		return v.uint(&a.RTTUS)
	case "payload":
		return v.payload(&a.Payload)
	}
	return errUnknown
}

func (in Inbound) appendTo(m *members) {
	m.uint("v", in.V)
	m.id("id", in.ID)
	m.peer("from", in.From)
	m.peer("to", in.To)
	m.uint("ts", in.TS)
	m.str("kind", in.Kind)
	m.ref("ref", in.Ref)
	m.payload(in.Payload)
	m.optStr("trace", in.Trace)
	m.optStr("agent", in.Agent)
	m.optStr("thread", in.Thread)
	m.optUint("hops", in.Hops)
	m.str("name", in.Name)
	m.optUint("deadline_ms", in.DeadlineMS)
	if in.Delegation != nil {
		m.other("delegation", in.Delegation)
	}
}

func (in *Inbound) member(name []byte, v value) error {
	switch string(name) {
	case "v":
		return v.uint(&in.V)
	case "id":
		return v.text(&in.ID)
	case "from":
		return v.text(&in.From)
	case "to":
		return v.text(&in.To)
	case "ts":
		return v.uint(&in.TS)
	case "kind":
		return v.str(&in.Kind)
	case "ref":
		return v.ref(&in.Ref)
	case "payload":
		return v.payload(&in.Payload)
	case "trace":
		return v.str(&in.Trace)
	case "agent":
		return v.str(&in.Agent)
	case "thread":
		return v.str(&in.Thread)
	case "hops":
		return v.uint(&in.Hops)
	case "name":
		return v.str(&in.Name)
	case "deadline_ms":
		return v.uint(&in.DeadlineMS)
	case "delegation":
		return v.other(&in.Delegation)
	}
	return errUnknown
}
