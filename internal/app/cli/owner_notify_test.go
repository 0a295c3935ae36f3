package cli

import (
	"slices"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
)

func TestWakeNotify(t *testing.T) {
	f := newDaemon(t)
	var asked client.OwnerNotifyParams
	f.SetHandler(client.MethodWakeNotify, func(r *jsonrpc.Request) (any, error) {
		asked = client.OwnerNotifyParams{}
		return client.OwnerNotify{Command: []string{"say", "it's"}, Source: "config.yaml", Failed: "say ended with exit code 1"}, r.ReadParams(&asked)
	})
	failed := "The command did not work: say ended with exit code 1. To set another: acpctl wake notify --help\n"
	for _, test := range []struct {
		args []string
		want client.OwnerNotifyParams
	}{
		{nil, client.OwnerNotifyParams{}},
		{[]string{"--try"}, client.OwnerNotifyParams{Test: true}},
		{[]string{"--off"}, client.OwnerNotifyParams{Set: true}},
		{[]string{"say", "--off", "a b"}, client.OwnerNotifyParams{Set: true, Test: true, Command: []string{"say", "--off", "a b"}}},
	} {
		got := f.Run(append([]string{"wake", "notify"}, test.args...)...)
		if got.Code != 0 || got.Out != "say 'it'\\''s' (config.yaml)\n" || got.Err != failed || asked.Set != test.want.Set || asked.Test != test.want.Test || !slices.Equal(asked.Command, test.want.Command) {
			t.Errorf("%q: %+v, %+v", test.args, got, asked)
		}
	}
	if got := f.Run("wake", "notify", "--off", "say"); got.Code != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWakeTest(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodWakeTest, &client.WakeTested{Agent: "claude", Posted: true})
	f.WantResult(f.Run("wake", "test", "claude"), 0, "claude was woken: its program has taken the line\n", "")
	f.SetAnswer(client.MethodWakeTest, &client.WakeTested{Agent: "claude", Refused: "the session is unattended"})
	f.WantResult(f.Run("wake", "test", "claude"), 1, "", "acpctl wake test: claude was not woken: the session is unattended\n")
}
