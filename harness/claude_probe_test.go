package harness

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestClaudeProbe(t *testing.T) {
	f := newFakeClaude(t)
	const protocol, features = `"peerProtocol":1`, `"peerFeatures":["artifact_yield","notify_idle"]`
	socket := `"messagingSocketPath":"` + f.socket + `"`
	for name, test := range map[string]struct {
		fields []string
		lacks  string
	}{
		"all":                    {[]string{protocol, features, socket, `"name":5`, `"more":{}`}, ""},
		"no protocol":            {[]string{features, socket}, "peerProtocol 1"},
		"protocol 2":             {[]string{`"peerProtocol":2`, features, socket}, "peerProtocol 1"},
		"protocol is a text":     {[]string{`"peerProtocol":"1"`, features, socket}, "peerProtocol 1"},
		"no features":            {[]string{protocol, socket}, "peerFeatures notify_idle"},
		"other features":         {[]string{protocol, `"peerFeatures":["notify"]`, socket}, "peerFeatures notify_idle"},
		"features are a text":    {[]string{protocol, `"peerFeatures":"notify_idle"`, socket}, "peerFeatures notify_idle"},
		"features are an object": {[]string{protocol, `"peerFeatures":{"notify_idle":true}`, socket}, "peerFeatures notify_idle"},
		"no socket":              {[]string{protocol, features}, "messagingSocketPath"},
		"no socket, null":        {[]string{protocol, features, `"messagingSocketPath":null`}, "messagingSocketPath"},
		"another socket":         {[]string{protocol, features, `"messagingSocketPath":"` + f.other + `"`}, "messagingSocketPath"},
		"socket is a list":       {[]string{protocol, features, `"messagingSocketPath":["` + f.socket + `"]`}, "messagingSocketPath"},
		"broken":                 {[]string{protocol, features, socket, "}"}, "is not a JSON object"},
		"endless":                {[]string{protocol, features, socket, `"more":"` + strings.Repeat("x", maxClaudeLine) + `"`}, "is not a file of at most 1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			f.writeSession("200", strings.Join(test.fields, ","))
			err := checkSessionFile(f.dir+"/.claude/sessions/200.json", f.socket)
			if test.lacks == "" && err != nil || test.lacks != "" && (err == nil || !strings.Contains(err.Error(), test.lacks)) {
				t.Errorf("%v, want %q", err, test.lacks)
			}
		})
	}
	for path, want := range map[string]string{f.dir: "is not a file", f.dir + "/nothing": "it has no session file"} {
		if err := checkSessionFile(path, f.socket); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

// A session whose file says that it has no idle notices is not woken, and the error names what is missing.
func TestClaudeLacksAFeature(t *testing.T) {
	f := newFakeClaude(t)
	env := f.environment()
	f.writeSession("200", `"peerProtocol":1,"peerFeatures":[],"messagingSocketPath":"`+f.socket+`"`)
	f.writeSession("201", `"peerProtocol":1,"peerFeatures":["notify_idle"],"messagingSocketPath":"`+f.socket+`"`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // so that nobody waits for another file
	_, err := findClaude(ctx, env, newFamily())
	if want := "claude 2.1.330 cannot be woken: its session file has no peerFeatures notify_idle"; !errors.Is(err, ErrUnsupported) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if n := len(f.list(typeUser)) + len(f.list(typeControl)); n != 0 {
		t.Errorf("the probe writes %d frames to the session", n)
	}
}

// CLAUDE_CONFIG_DIR says where the session file is, and a file that is written late is read. One that never comes
// is waited for no longer than sessionFileTime, and no longer than the caller waits.
func TestClaudeProbeFindsTheFile(t *testing.T) {
	f := newFakeClaude(t)
	f.environment()
	vars := map[string]string{"HOME": "/nowhere", "CLAUDE_CONFIG_DIR": f.dir + "/.claude"}
	getenv := func(name string) string { return vars[name] }
	synctest.Test(t, func(t *testing.T) {
		began, done := time.Now(), make(chan error, 1)
		probe := func(ctx context.Context, pid int) { done <- probeClaude(ctx, getenv, pid, f.socket) }
		if probe(t.Context(), 200); <-done != nil || time.Since(began) != 0 {
			t.Errorf("a file that is there is not read at once")
		}
		go probe(t.Context(), 202)
		synctest.Wait() // it has looked in vain
		f.writeSession("202", `"peerProtocol":1,"peerFeatures":["notify_idle"],"messagingSocketPath":"`+f.socket+`"`)
		if err := <-done; err != nil || time.Since(began) != sessionFilePause {
			t.Errorf("a late file, after %s: %v", time.Since(began), err)
		}
		began = time.Now()
		if probe(t.Context(), 203); <-done == nil || time.Since(began) != sessionFileTime {
			t.Errorf("a file that never comes is waited for %s", time.Since(began))
		}
		ctx, cancel := context.WithCancel(t.Context())
		began = time.Now()
		go probe(ctx, 203)
		synctest.Wait()
		if cancel(); <-done == nil || time.Since(began) != 0 {
			t.Errorf("after ctx has ended it is waited for %s", time.Since(began))
		}
	})
}

// What safety needs of a frame is not there, or of another type: nobody is taken to be there, and a
// receipt is no silence.
func TestClaudeFailsClosed(t *testing.T) {
	for _, mode := range []string{``, `,"from_mode":null`, `,"from_mode":true`, `,"from_mode":5`, `,"from_mode":["prompting"]`, `,"from_mode":{"mode":"prompting"}`, `,"from_mode":"prompting "`} {
		frame, ok := readClaudeFrame([]byte(`{"type":"control","action":"peer_idle_notice","orig_msg_id":"a","state":"idle"` + mode + `}`))
		if c := (&claude{args: []string{"claude"}}); !ok || frame.Of != "a" || c.explainUnattended(frame.Mode) == "" {
			t.Errorf("%s: %+v counts as attended", mode, frame)
		}
	}
	for _, more := range []string{
		``, `,"status":null`, `,"status":5`, `,"status":["delivered"]`, `,"status":{"is":"delivered"}`, `,"status":"held","reason":5`,
		`,"status":"refused","dropped_msg_ids":"a"`, `,"status":"refused","message":"no"`, `,"status":"refused","msgV":"2"`, `,"status":"refused","msg_id":5`, `,"status":"dropped","drop_reason":["duplicate"]`,
	} {
		frame, ok := readClaudeFrame([]byte(`{"type":"control","action":"peer_message_status","orig_msg_id":"a"` + more + `}`))
		if _, err := frame.judge(); !ok || frame.Of != "a" || err == nil {
			t.Errorf("%s: %+v counts as taken", more, frame)
		}
	}
	for _, args := range [][]string{nil, {}} {
		if c := (&claude{args: args}); c.explainUnattended(modePrompting) == "" {
			t.Errorf("a command line of %q counts as attended", args)
		}
	}
}
