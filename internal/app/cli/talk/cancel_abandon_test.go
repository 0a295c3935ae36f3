package talk

import (
	"strings"
	"testing"

	"github.com/acpd/acpd/client"
	"github.com/acpd/acpd/client/jsonrpc"
	"github.com/acpd/acpd/internal/app/cli/clitest"
	"github.com/acpd/acpd/kinds"
)

// A cancel without a word of the other side names the way out, and that way says what it has done.
func TestCancelWithoutAWord(t *testing.T) {
	f := newDaemon(t)
	id := clitest.SomeID.String()
	silent := kinds.Errorf(kinds.Unreachable, "build: nothing listens")
	f.SetAnswer(client.MethodCancel, silent)
	const hint = ": acpctl cancel "
	if got := f.Run("cancel", id); got.Code != 5 || !strings.Contains(got.Err, hint+id+" --abandon") {
		t.Errorf("%+v", got)
	}
	for _, other := range []error{kinds.Errorf(kinds.NotAuthorized, "not you"), kinds.Errorf(kinds.DaemonUnavailable, "no daemon")} {
		f.SetAnswer(client.MethodCancel, other)
		if got := f.Run("cancel", id); strings.Contains(got.Err, "--abandon") {
			t.Errorf("%v: %+v", other, got)
		}
	}
	var asked client.CancelParams
	f.SetHandler(client.MethodCancel, func(r *jsonrpc.Request) (any, error) {
		asked = client.CancelParams{}
		return &client.CancelAnswer{Ref: clitest.SomeID, Abandoned: silent.Message}, r.ReadParams(&asked)
	})
	if got := f.Run("cancel", id, "--abandon", "plans have changed"); got.Code != 0 || got.Out != "abandoned\n" || !strings.Contains(got.Err, "build: nothing listens") || !asked.Abandon || asked.Ref != clitest.SomeID {
		t.Errorf("%+v, %+v", got, asked)
	}
	f.WantResult(f.Run("cancel", id, "--abandon", "--json"), 0, `{"ref":"`+id+`","abandoned":"build: nothing listens"}`+"\n", "")
}
