package agents

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The log gets 60 lines a minute about agents, however many come and go, and the number of those that were left out.
// holds: security.md#agents-on-this-machine
func TestLinesAboutAgentsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		l := agentLog{to: slog.New(slog.NewTextHandler(&text, nil))}
		for range 59 { // in a minute, one a second
			for range 3 {
				l.write("agent attached")
			}
			time.Sleep(time.Second) // on the virtual clock
		}
		if n := strings.Count(text.String(), "\n"); n != maxAgentLines {
			t.Errorf("%d lines in a minute", n)
		}
		text.Reset()
		time.Sleep(time.Second) // on the virtual clock
		l.write("agent detached")
		if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "lines=117 ") || !strings.Contains(got, "agent detached") {
			t.Errorf("a minute later:\n%s", got)
		}
		text.Reset()
		time.Sleep(time.Minute) // on the virtual clock
		l.write("agent attached")
		if got := text.String(); strings.Count(got, "\n") != 1 {
			t.Errorf("after a minute in which none was left out:\n%s", got)
		}
	})
}
