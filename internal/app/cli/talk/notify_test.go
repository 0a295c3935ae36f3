package talk

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/internal/app/cli/frame"
	"github.com/acpd/acpd/internal/app/cli/ui"
	"github.com/acpd/acpd/kinds"
)

// Who begins a JSON object or array hears where it is wrong; nothing is sent. --text sends it as it is.
func TestNotifyDataThatIsNearlyJSON(t *testing.T) {
	f := newDaemon(t)
	var sent string
	f.SetHandler(client.MethodNotify, func(r *jsonrpc.Request) (any, error) {
		var p client.NotifyParams
		if err := r.ReadParams(&p); err != nil {
			return nil, err
		}
		n, err := kinds.ParsePayload[kinds.Notify](p.Payload)
		if err == nil {
			sent = string(n.Data)
		}
		return &client.Receipt{ID: clitest.SomeID, State: client.Handed}, err
	})
	const help = "See: acpctl notify --help\n"
	for _, tt := range []struct{ data, where string }{
		{`{"a": 1,}`, "line 1, column 9: "},
		{"{\"a\": 1,\n \"\u00e4\u00f6\": tru}", "line 2, column 11: "},
		{`{a: 1}`, "line 1, column 2: "},
		{`[1, 2`, "line 1, column 6: it ends too early"},
		{`{"a": 1} {"b": 2}`, "line 1, column 10: more text after its end"},
		{"\n [INFO] started", "line 2, column 3: "},
	} {
		sent = "nothing"
		got := f.Run("notify", "desk", "a.b", tt.data)
		if got.Code != frame.ExitUsage || sent != "nothing" || !strings.HasPrefix(got.Err, "acpctl notify: DATA: not valid JSON: "+tt.where) || !strings.HasSuffix(got.Err, "; --text sends it as text\n"+help) {
			t.Errorf("%q: %+v, sent %s", tt.data, got, sent)
		}
		if got := f.Run("notify", "desk", "a.b", "--text", tt.data); got.Code != 0 || sent[0] != '"' {
			t.Errorf("--text %q: %+v, sent %s", tt.data, got, sent)
		}
	}
	f.WantResult(f.Run("notify", "desk", "a.b", `{"a": 1, "a": 2}`), frame.ExitUsage, "", "acpctl notify: DATA: the name \"a\" is used twice; --text sends it as text\n"+help)
	for data, want := range map[string]string{"all green": `"all green"`, "": `""`, "42": "42", ` {"a": [1]} `: `{"a":[1]}`, "trueish": `"trueish"`, "} {": `"} {"`} {
		if got := f.Run("notify", "desk", "a.b", data); got.Code != 0 || sent != want {
			t.Errorf("%q: %+v, sent %s", data, got, sent)
		}
	}
	if got := f.Run("notify", "desk", "--text", "--payload", `{"topic": "a.b", "data": 1}`); got.Code != frame.ExitUsage {
		t.Errorf("--text beside --payload: %+v", got)
	}
	if got := f.Run("notify", "desk", "a.b", "--text", "42"); got.Code != 0 || sent != `"42"` {
		t.Errorf("--text 42: %+v, sent %s", got, sent)
	}
}

// Each argument that is JSON says where it is not.
func TestJSONArgumentsSayWhereTheyAreWrong(t *testing.T) {
	f := newDaemon(t)
	for _, args := range [][]string{
		{"notify", "desk", "--payload", `{"topic": x}`},
		{"query", "desk", "--payload", `{"topic": x}`},
		{"delegate", "desk", "task", "--context", `{"topic": x}`},
		{"reply", clitest.SomeID.String(), "text", "--data", `{"topic": x}`},
	} {
		flag := args[len(args)-2]
		if got := f.Run(args...); got.Code != frame.ExitUsage || !strings.Contains(got.Err, flag+": not valid JSON: line 1, column 11: ") {
			t.Errorf("%v: %+v", args, got)
		}
		if flag == "--data" {
			continue
		}
		args[len(args)-1] = "[1]"
		if got := f.Run(args...); got.Code != frame.ExitUsage || !strings.Contains(got.Err, flag+": expected a JSON object") {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// At a terminal, a word that says what became of a message is followed by what that means.
func TestAPersonHearsWhatAReceiptMeans(t *testing.T) {
	f := newDaemon(t)
	f.SetAnswer(client.MethodTask, &client.Task{ID: clitest.SomeID, Direction: client.Given})
	f.SetAnswer(client.MethodAnswer, &client.Answered{ID: clitest.SomeID, Delegation: clitest.SomeID})
	for state, means := range map[client.ReceiptState]string{
		client.Handed:   "An agent there has confirmed it.\n",
		client.Held:     "It is stored there until an agent takes it. acpctl inbox there shows it.\n",
		client.Sent:     "It is on its way; leave out --no-wait to see whether it arrives.\n",
		client.Replaced: "A newer partial result was sent instead.\n",
	} {
		receipt := &client.Receipt{ID: clitest.SomeID, State: state}
		f.SetAnswer(client.MethodNotify, receipt)
		f.SetAnswer(client.MethodResult, receipt)
		f.WantResult(f.Run("notify", "desk", "t", "x"), 0, string(state)+"\n", "")
		f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "notify", "desk", "t", "x"), 0, string(state)+"\n", means)
		f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "notify", "desk", "t", "x", "--json"), 0, `{"id":"`+clitest.SomeID.String()+`","state":"`+string(state)+"\"}\n", "")
		f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "reply", clitest.SomeID.String(), "--failed", "x"), 0, string(state)+"\n", means)
		f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "reply", clitest.SomeID.String(), "--partial", "x"), 0, "",
			map[client.ReceiptState]string{client.Replaced: means}[state]+"The delegation is open still. Next: acpctl reply "+clitest.SomeID.String()+" TEXT ends it.\n")
	}
	f.WantResult(f.Run("reply", clitest.SomeID.String(), "main"), 0, "answered\n", "")
	f.WantResult(f.RunAtTerminal(ui.Terminal{ErrTTY: true}, "", "reply", clitest.SomeID.String(), "main"), 0, "answered\n",
		"The agent that asked has the answer, or gets it when it asks again. Next: acpctl wait "+clitest.SomeID.String()+"\n")
}
