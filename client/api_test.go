package client

import (
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/wire"
)

// The field that a carrier names is its member payload.
func TestPayloadCarriers(t *testing.T) {
	for _, v := range []jsonrpc.PayloadCarrier{
		new(QueryParams), new(DelegateParams), &NotifyParams{To: To("desk")}, new(ResultParams), new(Answer), new(PingAnswer), new(Inbound),
	} {
		*v.PayloadField() = wire.Payload(`{"only":"this"}`)
		if text, err := json.Marshal(v); err != nil || !strings.Contains(string(text), `"payload":{"only":"this"}`) {
			t.Errorf("%T: %s, %v", v, text, err)
		}
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
