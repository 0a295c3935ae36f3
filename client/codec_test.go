package client

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/identity"
	"github.com/acpd/acpd/wire"
)

// What the types write and read by hand is what their tags say.
func TestCodecFollowsTags(t *testing.T) {
	id, no := wire.NewMessageID(), false
	head := Head{ID: id, Thread: "th\"\n\u2028read", Parent: id}
	payload := wire.Payload(`{"question":"ü\u00fc","n":12345678901234567890,"o":{}}`)
	envelope := wire.Envelope{V: 1, ID: id, From: identity.ID{1}, To: identity.ID{2}, TS: 1 << 60, Kind: "query", Payload: payload}
	full := envelope
	full.Ref, full.Trace, full.Agent, full.Thread, full.Hops, full.FromAgent = &id, "00-ab", "reviewer", "t", 3, "planner"
	values := []any{
		&QueryParams{},
		&QueryParams{Head: head, To: "desk", Payload: payload},
		&QueryParams{Ref: id, Payload: payload},
		&DelegateParams{Head: head, To: "desk", Payload: payload},
		&NotifyParams{To: To("desk")},
		&NotifyParams{Head: head, To: ToAll("desk", "laptop"), Payload: payload, Wait: &no},
		&ResultParams{Ref: id},
		&ResultParams{Head: head, Ref: id, Payload: payload},
		&Answer{ID: id},
		&Answer{ID: id, From: identity.ID{1}, Kind: "response", RTTUS: 17, Payload: payload, FromAgent: "planner"},
		&PingAnswer{Answer: Answer{ID: id}},
		&PingAnswer{Answer: Answer{ID: id, From: identity.ID{1}, Kind: "pong", RTTUS: 17, Payload: payload}, TS: 1 << 60},
		&Inbound{Envelope: envelope},
		&Inbound{Envelope: full, Name: "desk", DeadlineMS: 9, Delegation: &Task{ID: id, Peer: "desk", State: TaskAccepted}, Wake: &WakeGrant{Unattended: true}},
	}
	for _, v := range values {
		if _, ok := v.(jsonrpc.MemberReader); !ok {
			t.Fatalf("%T is not read by hand", v)
		}
		byHand, err := jsonrpc.AppendValue(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		byTags, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		a, b := jsontext.Value(byHand).Clone(), jsontext.Value(byTags)
		if err := a.Canonicalize(jsontext.CanonicalizeRawInts(false)); err != nil {
			t.Fatalf("%T: %v: %s", v, err, byHand)
		}
		b.Canonicalize(jsontext.CanonicalizeRawInts(false))
		if !bytes.Equal(a, b) {
			t.Errorf("%T\nwrites   %s\nits tags %s", v, a, b)
		}

		// Read both ways; empty payloads become {} by either.
		hand, tags := reflect.New(reflect.TypeOf(v).Elem()), reflect.New(reflect.TypeOf(v).Elem())
		if err := jsonrpc.ReadValue(byHand, hand.Interface(), true); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		if err := json.Unmarshal(byHand, tags.Interface(), json.RejectUnknownMembers(true)); err != nil {
			t.Errorf("%T: %v", v, err)
		}
		if !reflect.DeepEqual(hand.Interface(), tags.Interface()) {
			t.Errorf("%T\nreads    %+v\nits tags %+v", v, hand.Elem(), tags.Elem())
		}

		// Each member alone with wrong values.
		var members map[string]jsontext.Value
		if err := json.Unmarshal(byHand, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			for _, wrong := range []string{`true`, `-1`, `1.5`, `"\ud800"`, `[1]`, `"x"`, `[]`, `{}`, `null`, `7`} {
				text := []byte(`{"` + name + `":` + wrong + `}`)
				hand, tags := reflect.New(reflect.TypeOf(v).Elem()), reflect.New(reflect.TypeOf(v).Elem())
				errHand := jsonrpc.ReadValue(text, hand.Interface(), true)
				errTags := json.Unmarshal(text, tags.Interface(), json.RejectUnknownMembers(true))
				if (errHand == nil) != (errTags == nil) {
					t.Errorf("%T %s\nread     %v\nits tags %v", v, text, errHand, errTags)
				}
				if errHand != nil && !strings.HasPrefix(errHand.Error(), name+": ") {
					t.Errorf("%T %s: the error does not name the member: %v", v, text, errHand)
				}
			}
		}
	}
}

func TestUnknownMembers(t *testing.T) {
	text := []byte(`{"to":"desk","tread":"x"}`)
	if err := jsonrpc.ReadValue(text, new(QueryParams), true); err == nil || !strings.HasPrefix(err.Error(), "tread: ") {
		t.Errorf("got %v", err)
	}
	if err := jsonrpc.ReadValue(text, new(QueryParams), false); err != nil {
		t.Errorf("got %v", err)
	}
	if err := jsonrpc.ReadValue([]byte(`{"uri":"x","urx":1}`), new(JoinParams), true); err == nil {
		t.Error("accepted")
	}
}

func TestRecipientsAndEvents(t *testing.T) {
	many := `["x"` + strings.Repeat(`,"x"`, MaxRecipients) + `]`
	for _, bad := range []string{`{"to":[]}`, `{"to":` + many + `}`, `{"to":null}`, `{"to":7}`, `{"to":[7]}`} {
		if err := json.Unmarshal([]byte(bad), new(NotifyParams)); err == nil {
			t.Errorf("%.40s: accepted", bad)
		}
	}
	for _, bad := range []string{`{"events":"up"}`, `{"events":1}`, `{"events":[1]}`, `{"events":{}}`} {
		if err := json.Unmarshal([]byte(bad), new(SubscribeParams)); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
	for _, good := range []string{`{}`, `{"events":true}`, `{"events":["up","down"]}`} {
		var p SubscribeParams
		if err := json.Unmarshal([]byte(good), &p); err != nil {
			t.Errorf("%s: %v", good, err)
		}
		if text, err := json.Marshal(&p); err != nil || string(text) != good {
			t.Errorf("got %s, %v, want %s", text, err, good)
		}
	}
	if _, err := json.Marshal(&NotifyParams{}); err == nil {
		t.Error("no recipient: accepted")
	}
}

// FuzzReadParams: params of any text are read or refused.
func FuzzReadParams(f *testing.F) {
	for _, s := range []string{`{"to":"desk","payload":{}}`, `{"to":["desk"],"wait":false}`, `{"ref":null,"v":1}`, `{"\u0061":"\ud800"}`, `[]`, `null`} {
		f.Add([]byte(s))
	}
	inbound, err := jsonrpc.AppendValue(nil, &Inbound{Envelope: wire.Envelope{V: 1, Kind: "query"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(inbound)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, v := range []any{new(QueryParams), new(DelegateParams), new(NotifyParams), new(ResultParams), new(Answer), new(Inbound), new(wire.Payload), new(TaskParams)} {
			jsonrpc.ReadValue(text, v, true)
		}
	})
}
