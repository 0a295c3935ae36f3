package harness

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxClaudeLine bounds a line between Claude Code and this process, and a session file, in bytes. Claude Code
// takes no longer lines either.
const maxClaudeLine = 1 << 20

// claudeFrame is a line on the socket of a Claude Code session, or on the one that it answers
// to, as far as it is needed here.
type claudeFrame struct {
	Type     string         `json:"type"`
	Version  int            `json:"msgV,omitzero"`
	ID       string         `json:"msg_id,omitzero"`
	From     string         `json:"from,omitzero"`
	Token    string         `json:"token,omitzero"`    // of type auth
	Priority string         `json:"priority,omitzero"` // of type user
	Message  *claudeMessage `json:"message,omitzero"`  // of type user; sent, and read as Answer
	Answer   string         `json:"-"`                 // of type user: what the model sends, without the mark around it

	Action     claudeAction `json:"action,omitzero"` // of type control
	Of         string       `json:"orig_msg_id,omitzero"`
	Status     claudeStatus `json:"status,omitzero"`
	Reason     string       `json:"reason,omitzero"`
	DropReason string       `json:"drop_reason,omitzero"`
	Dropped    []string     `json:"dropped_msg_ids,omitzero"`
	Mode       string       `json:"from_mode,omitzero"` // of an idle notice; never sent
}

// claudeMessage is what the model reads.
type claudeMessage struct {
	Role    string         `json:"role"`
	Content jsontext.Value `json:"content"`
}

// claudeAction is what a control frame is about.
type claudeAction string

const (
	actionStatus   claudeAction = "peer_message_status" // what became of a message
	actionTellIdle claudeAction = "notify_when_idle"    // asks for one idle notice
	actionIdle     claudeAction = "peer_idle_notice"    // the session is idle
)

// claudeStatus is what became of a message.
type claudeStatus string

const (
	statusHeld      claudeStatus = "held"
	statusDelivered claudeStatus = "delivered" // after it was held
	statusDenied    claudeStatus = "denied"
	statusExpired   claudeStatus = "expired"
	statusRefused   claudeStatus = "refused"
	statusDropped   claudeStatus = "dropped"
)

// claudeReasons are the words by which Claude Code says why it holds a message, turns it down or drops it.
var claudeReasons = []string{
	"explicit-setting", "managed-setting", "repo-setting", "invalid-setting", "bypass-default", "mode-unknown", "mode-mismatch", "no-mode-asserted",
	"rate-limited", dropDuplicate, "hop-loop", "hop-runaway", "queue-full", "unverified", "user",
}

const (
	typeAuth    = "auth"
	typeUser    = "user"
	typeControl = "control"

	// modePrompting is the only mode in which somebody is asked before tools run. Claude Code
	// says it in auto mode too, its default, in which it asks where it sees a risk.
	modePrompting = "prompting"
	// dropDuplicate: a message of this id is in the session already.
	dropDuplicate = "duplicate"
)

// appendLine appends a frame as its line. It never fails: all text is made valid.
func (f *claudeFrame) appendLine(b []byte) []byte {
	line, err := json.Marshal(f, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(err)
	}
	return append(append(b, line...), '\n')
}

// readClaudeFrame reads a line. It reports whether that is a frame. A field of another type than the
// one that is known makes no other field unread: a receipt that cannot be understood must not pass for
// silence, which is success.
func readClaudeFrame(line []byte) (f claudeFrame, ok bool) {
	var fields map[string]jsontext.Value
	if json.Unmarshal(line, &fields, jsontext.AllowInvalidUTF8(true)) != nil { // the model's text may have half of a surrogate pair
		return f, false
	}
	text := func(name string) string { return readAnyText(fields[name]) }
	f = claudeFrame{
		Type: text("type"), ID: text("msg_id"), Action: claudeAction(text("action")), Of: text("orig_msg_id"),
		Status: claudeStatus(text("status")), Reason: text("reason"), DropReason: text("drop_reason"), Mode: text("from_mode"),
		Answer: readClaudeAnswer(fields["message"]),
	}
	json.Unmarshal(fields["dropped_msg_ids"], &f.Dropped)
	return f, f.Type != "" || f.Action != ""
}

// readAnyText returns the text of a JSON text. It returns "" for null and for no value, and any other
// value as it is written, which is no word that is known.
func readAnyText(value jsontext.Value) string {
	switch value.Kind() {
	case 0, 'n':
		return ""
	case '"':
		text, _ := jsontext.AppendUnquote(nil, value) // half of a surrogate pair becomes a replacement character
		return string(text)
	}
	return string(value)
}

// judge returns what a receipt means for a post, and what was seen: nil if the session has the
// line.
func (f *claudeFrame) judge() (saw string, err error) {
	saw = cmp.Or(f.Reason, f.DropReason)
	if saw != "" {
		saw = showWord(saw, claudeReasons...)
	}
	switch {
	case f.Status == statusDelivered, f.Status == statusDropped && f.DropReason == dropDuplicate:
		return "", nil
	case f.Status == statusHeld:
		return saw, ErrHeld
	}
	status := showWord(string(f.Status), string(statusDenied), string(statusExpired), string(statusRefused), string(statusDropped))
	return strings.TrimSuffix(status+": "+saw, ": "), ErrRefused
}

// claudeTag is Claude Code's own mark around a message of another session.
var claudeTag = regexp.MustCompile(`(?i)<(/?cross-session-message)`)

// claudeMark matches a text in that mark, whatever attributes the mark has.
var claudeMark = regexp.MustCompile(`(?s)^<cross-session-message(?:\s+[\w-]+="[^"]*")*\s*>(.*)</cross-session-message>$`)

// wrapForClaude puts a line into the mark that the sender has to write. Without it the line
// looks as if the user had typed it.
func wrapForClaude(from, line string) jsontext.Value {
	text := `<cross-session-message from="` + from + `" from-name="acpd">` + "\n" +
		claudeTag.ReplaceAllString(line, "&lt;$1") + "\n</cross-session-message>"
	content, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err) // the line was checked, and so was the path
	}
	return content
}

// readClaudeAnswer returns the text of a message from the model, without the mark around it. It returns ""
// for a message that has no text.
func readClaudeAnswer(message jsontext.Value) string {
	var m struct {
		Content string `json:"content"`
	}
	json.Unmarshal(message, &m, jsontext.AllowInvalidUTF8(true))
	text := strings.TrimSpace(m.Content)
	if mark := claudeMark.FindStringSubmatch(text); mark != nil {
		text = strings.TrimSpace(mark[1])
	}
	return text
}
