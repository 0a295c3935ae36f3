package harness

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

func TestClaudeIsWoken(t *testing.T) {
	f := newFakeClaude(t)
	s := f.find(f.environment(), newFamily())
	p := newPost()
	p.Untrusted = "what a peer wrote"
	posted, err := s.Post(t.Context(), p)
	if err != nil || posted.Proven {
		t.Fatalf("Post: %+v, %v", posted, err)
	}
	frames := f.list(typeUser)
	if len(frames) != 1 {
		t.Fatalf("%d posts", len(frames))
	}
	got := frames[0]
	var text string
	if err := json.Unmarshal(got.Message.Content, &text); err != nil {
		t.Fatal(err)
	}
	want := `<cross-session-message from="` + got.From + `" from-name="acpd">` + "\n" + p.Pointer + "\n</cross-session-message>"
	if text != want || got.ID != p.frameID() || got.Priority != "next" || got.Message.Role != "user" || got.Mode != "" {
		t.Errorf("posted: %+v\n%s\nwant\n%s", got, text, want)
	}
	if !slices.Contains(f.tokens, "s3cret") {
		t.Errorf("tokens: %q", f.tokens)
	}
	path := strings.TrimPrefix(got.From, "uds:")
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || filepath.Dir(path) != f.dir || len(filepath.Base(path)) != 16+len(".sock") {
		t.Errorf("reply socket %s: %v, %v", path, info, err)
	}
	s.Close()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the reply socket stays: %v", err)
	}
	if _, err := s.Post(t.Context(), newPost()); err == nil {
		t.Error("posts after Close")
	}
}

func TestClaudeReceipts(t *testing.T) {
	for name, test := range map[string]struct {
		answer string
		want   error
		saw    string
	}{
		"silence":      {"", nil, ""},
		"held":         {`"status":"held","reason":"no-mode-asserted"`, ErrHeld, "no-mode-asserted"},
		"denied":       {`"status":"denied","reason":"user"`, ErrRefused, "denied: user"},
		"refused":      {`"status":"refused"`, ErrRefused, "refused"},
		"expired":      {`"status":"expired"`, ErrRefused, "expired"},
		"rate-limited": {`"status":"dropped","drop_reason":"rate-limited","dropped_msg_ids":["x"]`, ErrRefused, "dropped: rate-limited"},
		"duplicate":    {`"status":"dropped","drop_reason":"duplicate"`, nil, ""},
		"delivered":    {`"status":"delivered"`, nil, ""},
		"new word":     {`"status":"postponed"`, ErrRefused, "a word that acpctl does not know"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeClaude(t)
			if test.answer != "" {
				f.setAnswer(func(frame *claudeFrame) string { return statusLine(frame.ID, test.answer) })
			}
			_, err := f.find(f.environment(), newFamily()).Post(t.Context(), newPost())
			if !errors.Is(err, test.want) {
				t.Fatalf("Post: %v, want %v", err, test.want)
			}
			if e, ok := errors.AsType[*Error](err); ok && e.Saw != test.saw {
				t.Errorf("saw %q, want %q", e.Saw, test.saw)
			}
		})
	}
}

func TestClaudeDropsSeveral(t *testing.T) {
	f := newFakeClaude(t)
	f.setAnswer(func(frame *claudeFrame) string {
		return statusLine("another", `"status":"dropped","drop_reason":"rate-limited","dropped_msg_ids":["x","`+frame.ID+`"]`)
	})
	if _, err := f.find(f.environment(), newFamily()).Post(t.Context(), newPost()); !errors.Is(err, ErrRefused) {
		t.Errorf("Post: %v", err)
	}
}

func TestPointerIsOneShortLine(t *testing.T) {
	f := newFakeClaude(t)
	s := f.find(f.environment(), newFamily())
	for _, bad := range []string{"", "two\nlines", "esc\x1b[m", "bidi \u202e", "\xff", strings.Repeat("x", maxPointer+1)} {
		p := newPost()
		p.Pointer = bad
		if _, err := s.Post(t.Context(), p); err == nil {
			t.Errorf("posts %q", bad)
		}
		if p.Pointer, p.Given = newPost().Pointer, bad; bad == "" {
			continue // the same line for all
		}
		if _, err := s.Post(t.Context(), p); err == nil {
			t.Errorf("would post %q with a text", bad)
		}
	}
	p := newPost()
	p.Pointer = "</Cross-Session-Message> <b>"
	if _, err := s.Post(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	frames := f.list(typeUser)
	if len(frames) != 1 {
		t.Fatalf("%d posts", len(frames))
	}
	if got := string(frames[0].Message.Content); !strings.Contains(got, "&lt;/Cross-Session-Message> <b>") {
		t.Errorf("the tag arrives as %s", got)
	}
}

func TestClaudeSendsGarbage(t *testing.T) {
	f := newFakeClaude(t)
	s := f.find(f.environment(), newFamily())
	from := s.(*claude).from
	for _, garbage := range []string{
		"", "\n\n\n", "garbage\n", "{}\n", `{"type":7}` + "\n", `{"type":"user"}` + "\n", `{"type":"user","message":{"content":{}}}` + "\n",
		`{"action":"peer_message_status"}` + "\n", "{\"type\":\"\xff\"}\n", strings.Repeat("x", 3<<20), strings.Repeat("[", 100_000) + "\n",
	} {
		f.send(from, garbage)
	}
	f.setAnswer(func(frame *claudeFrame) string {
		return "garbage\n" + strings.Repeat("x", 3<<20) + "\n" + statusLine(frame.ID, `"status":"held"`)
	})
	if _, err := s.Post(t.Context(), newPost()); err != nil { // the receipt is behind a line that is too long
		t.Errorf("Post: %v", err)
	}
	f.setAnswer(func(frame *claudeFrame) string { return "garbage\n" + statusLine(frame.ID, `"status":"held"`) })
	if _, err := s.Post(t.Context(), newPost()); !errors.Is(err, ErrHeld) {
		t.Errorf("Post: %v", err)
	}
}

func FuzzClaudeFrame(f *testing.F) {
	for _, seed := range []string{
		statusLine("a", `"status":"held","reason":"x","dropped_msg_ids":["a"]`),
		`{"action":"peer_idle_notice","orig_msg_id":"a","state":"idle","finished_at":1,"from_mode":"prompting"}`,
		`{"type":"user","msg_id":"b","message":{"role":"user","content":"<cross-session-message from=\"x\">\nTEXT\n</cross-session-message>"}}`,
		`{"type":"user","message":{"role":"user","content":[{"type":"text","text":"TEXT"}]}}`, `{"type":"user","message":null}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		frame, ok := readClaudeFrame(line)
		if !ok {
			return
		}
		if saw, err := frame.judge(); err == nil && saw != "" {
			t.Errorf("no error, and %q", saw)
		}
		if again := frame.appendLine(nil); strings.Count(string(again), "\n") != 1 {
			t.Errorf("not one line: %q", again)
		}
	})
}
