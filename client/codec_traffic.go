package client

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
)

// A tail without filters that waits in vain asks and is answered for as long as it watches. That takes the
// daemon no reflection, whose code would be in memory for it.

func (p TrafficParams) WriteMembers(m *jsonrpc.ObjectWriter) {
	m.WriteOptionalUint("after", p.After)
	if p.Limit != 0 {
		m.WriteAny("limit", p.Limit)
	}
	m.WriteOptionalUint("wait_ms", p.WaitMS)
	writeOptionalTexts(m, "kinds", p.Kinds)
	writeOptionalTexts(m, "topics", p.Topics)
	writeOptionalTexts(m, "peers", p.Peers)
	writeOptionalTexts(m, "threads", p.Threads)
	writeOptionalTexts(m, "agents", p.Agents)
	if p.Payload {
		m.WriteAny("payload", true)
	}
	if p.Open {
		m.WriteAny("open", true)
	}
}

func writeOptionalTexts(m *jsonrpc.ObjectWriter, name string, texts []string) {
	if len(texts) > 0 {
		m.WriteAny(name, texts)
	}
}

func (p *TrafficParams) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "after":
		return v.ReadUint(&p.After)
	case "limit":
		return v.ReadAny(&p.Limit)
	case "wait_ms":
		return v.ReadUint(&p.WaitMS)
	case "kinds":
		return v.ReadAny(&p.Kinds)
	case "topics":
		return v.ReadAny(&p.Topics)
	case "peers":
		return v.ReadAny(&p.Peers)
	case "threads":
		return v.ReadAny(&p.Threads)
	case "agents":
		return v.ReadAny(&p.Agents)
	case "payload":
		return v.ReadAny(&p.Payload)
	case "open":
		return v.ReadAny(&p.Open)
	}
	return jsonrpc.ErrUnknownMember
}

func (a TrafficAnswer) WriteMembers(m *jsonrpc.ObjectWriter) {
	writeTraffic(m, "entries", a.Entries)
	m.WriteUint("next", a.Next)
	m.WriteUint("lost", a.Lost)
	if a.Open != nil {
		writeTraffic(m, "open", a.Open)
	}
	if a.OpenMore != 0 {
		m.WriteAny("open_more", a.OpenMore)
	}
}

func writeTraffic(m *jsonrpc.ObjectWriter, name string, entries []TrafficEntry) {
	if len(entries) == 0 {
		m.WriteAny(name, jsontext.Value("[]"))
		return
	}
	m.WriteAny(name, entries)
}

func (a *TrafficAnswer) ReadMember(name []byte, v jsonrpc.Value) error {
	switch string(name) {
	case "entries":
		return v.ReadAny(&a.Entries)
	case "next":
		return v.ReadUint(&a.Next)
	case "lost":
		return v.ReadUint(&a.Lost)
	case "open":
		return v.ReadAny(&a.Open)
	case "open_more":
		return v.ReadAny(&a.OpenMore)
	}
	return jsonrpc.ErrUnknownMember
}
