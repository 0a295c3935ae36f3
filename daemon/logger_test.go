package daemon

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/kinds"
	"github.com/acpd/acpd/wire"
)

// The log at level debug tells of every message by its id, and holds no payload, answer, key of an
// agent, or invitation, whatever goes well or wrong.
// holds: security.md#at-rest
func TestDebugLogHoldsNoSecrets(t *testing.T) {
	t.Parallel()
	logs := [2]await.Output{}
	desk := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "desk", NoMDNS: true, Log: &logs[0], Level: new(slog.LevelDebug)})
	laptop := startWith(t, Options{Home: stateDir(t), Listen: "127.0.0.1:0", Name: "laptop", NoMDNS: true, Log: &logs[1], Level: new(slog.LevelDebug)})
	var invitation client.Invitation
	desk.dial().must("invite", client.InviteParams{}, &invitation)
	laptop.dial().must("join", client.JoinParams{URI: invitation.URI}, nil)
	await.Until(t, "connected", func() bool { _, ok := desk.node.Peer(laptop.ID()); return ok })

	const secret = "words-that-no-log-has"
	var attached client.Attached
	failing := desk.dialWith(say(`{"summary":"` + secret + `","accepted":true}`))
	failing.must("attach", client.AttachParams{Name: "reviewer"}, &attached)
	l := laptop.dial()
	l.must("query", client.QueryParams{To: "desk", Payload: query(secret)}, nil)
	var task client.DelegateAnswer
	l.must("delegate", client.DelegateParams{To: "desk", Payload: kinds.EncodePayload(&kinds.Delegate{Task: secret})}, &task)
	desk.dial().must("result", client.ResultParams{Ref: task.ID, Payload: kinds.EncodePayload(&kinds.Result{Status: "completed", Outcome: secret})}, nil)
	note := client.NotifyParams{To: client.To("desk"), Payload: wire.Payload(`{"topic":"t","data":"` + secret + `"}`)}
	l.must("notify", note, nil)
	desk.agent(client.AttachParams{Name: "quoter", Kinds: []string{"notify"}}, func(_ context.Context, r *jsonrpc.Request) {
		r.RespondError(kinds.Errorf(kinds.Invalid, "no agent takes %s", r.Params))
	})
	l.must("notify", note, nil)
	l.call("query", client.QueryParams{To: "desk/" + secret, Payload: query(secret)}, nil)
	l.call("join", client.JoinParams{URI: "acp://" + secret}, nil)
	desk.agent(client.AttachParams{Name: "liar", Kinds: []string{"query"}, Domains: []string{"lies"}}, say(`{"summary":7,"`+secret+`":"`+secret+`"}`))
	if err := l.call("query", client.QueryParams{To: "desk/liar", Payload: query(secret)}, nil); err == nil {
		t.Error("an answer that is none was taken")
	}
	raw := desk.raw()
	raw.line(`{"jsonrpc":"2.0","id":1,"method":"query","params":{"to":"` + secret + `","` + secret + `":1}}`)
	raw.Write([]byte(`{"` + secret + `"` + "\n"))
	desk.stop()
	laptop.stop()
	for i := range logs {
		text := logs[i].String()
		if !strings.Contains(text, "level=DEBUG") || i == 0 && !(strings.Contains(text, "kind=query id=") && strings.Contains(text, "not confirmed")) {
			t.Errorf("nothing is logged at level debug:\n%s", text)
		}
		token := invitation.URI[strings.LastIndexAny(invitation.URI, "/?=&")+1:]
		for _, s := range []string{secret, base64.StdEncoding.EncodeToString([]byte(secret)), attached.Key, invitation.URI, token} {
			if len(s) < 16 {
				t.Fatalf("%q is no secret", s)
			}
			if strings.Contains(text, s) {
				t.Errorf("the log of daemon %d holds %q:\n%s", i, s, text)
			}
		}
	}
}
