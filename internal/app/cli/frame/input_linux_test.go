package frame

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acpd/acpd/integration/await"
	"github.com/acpd/acpd/integration/live"
	"github.com/acpd/acpd/internal/app/cli/ui"
)

// What was typed before a question is no answer to it.
func TestWhatIsTypedAheadIsNoAnswer(t *testing.T) {
	for name, ask := range map[string]func(*Frame, context.Context) (bool, error){
		"confirm": func(f *Frame, ctx context.Context) (bool, error) { return f.Confirm(ctx, "Go on?") },
		"choose": func(f *Frame, ctx context.Context) (bool, error) {
			answer, err := f.Choose(ctx, "Go on?", "yes", "no")
			return answer == "yes", err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			master, slave, err := live.OpenTerminal(50, 80)
			if err != nil {
				t.Fatal(err)
			}
			defer master.Close()
			defer slave.Close()
			const ahead = "yes\nyes\ny"
			if _, err := master.WriteString(ahead); err != nil {
				t.Fatal(err)
			}
			await.Until(t, "the keys have come", func() bool { // a line, as the terminal gives lines
				n, err := unix.IoctlGetInt(int(slave.Fd()), unix.TIOCINQ)
				return err == nil && n >= len("yes\nyes\n")
			})
			var said await.Output
			f := &Frame{Terminal: ui.Terminal{In: slave, Err: &said, InTTY: true}}
			answers := make(chan bool, 1)
			go func() {
				yes, err := ask(f, t.Context())
				answers <- yes || err != nil
			}()
			await.Until(t, "the question is asked", func() bool { return strings.Contains(said.String(), "Type yes or no: ") })
			if _, err := master.WriteString("no\n"); err != nil {
				t.Fatal(err)
			}
			if await.Receive(t, "answer", answers) {
				t.Errorf("what was typed ahead is the answer: %q", said.String())
			}
		})
	}
}
