package message

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// field is one line of a message as the reference orders them.
type field struct {
	key, text string
}

// fields lists all but "to", which Render puts after "from".
func (m Message) fields() []field {
	return []field{
		{"id", m.ID},
		{"from", m.From},
		{"type", m.Type},
		{"priority", m.Priority},
		{"created_at_utc", m.Created},
		{"expires_at", m.Expires},
		{"channel", m.Channel},
		{"autonomy_hint", m.AutonomyHint},
		{"related_packet", m.RelatedPacket},
		{"related_pr", m.RelatedPR},
		{"conversation_id", m.ConversationID},
		{"parent_message_id", m.ParentID},
		{"context_keys", strings.TrimRight(m.ContextKeys, "\n")},
		{"subject", m.Subject},
		{"body", strings.TrimRight(m.Body, "\n")},
	}
}

// Render writes the message as a file: the reference's bytes wherever those read
// back as the same text (a block gains one newline at its end), else the same fields
// with the value in double quotes and escapes. It does not validate. It refuses what
// no file can hold: a NUL and broken UTF-8.
func (m Message) Render() ([]byte, error) {
	var b strings.Builder
	for _, f := range m.fields() {
		if strings.ContainsRune(f.text, 0) || !utf8.ValidString(f.text) {
			return nil, fmt.Errorf("render message: field '%s' holds a NUL or is not UTF-8: remove it", f.key)
		}
		switch {
		case f.text == "" && !required(f.key):
		case (f.key == "body" || f.key == "context_keys") && strings.Contains(f.text, "\n") && blockSafe(f.text):
			b.WriteString(f.key + ": |\n")
			for line := range strings.Lines(f.text) {
				b.WriteString("  " + line)
			}
			b.WriteByte('\n')
		default:
			b.WriteString(f.key + ": " + scalar(f.text) + "\n")
		}
		if f.key == "from" {
			to, err := m.renderTo()
			if err != nil {
				return nil, err
			}
			b.WriteString(to)
		}
	}
	return []byte(b.String()), nil
}

func (m Message) renderTo() (string, error) {
	names := make([]string, len(m.To))
	for i, name := range m.To {
		if !LegalAgent(name) {
			return "", fmt.Errorf("render message: recipient %s must match %s", quote(name), agentPattern)
		}
		names[i] = scalar(name)
	}
	switch {
	case m.list():
		return "to: [" + strings.Join(names, ", ") + "]\n", nil
	case len(names) == 0:
		return "", errors.New("render message: it has no recipient: name one")
	}
	return "to: " + names[0] + "\n", nil
}

// scalar is a value on one line.
func scalar(v string) string {
	switch {
	case strings.ContainsFunc(v, unsafe):
		return escaped(v)
	case v == "":
		return `""`
	case strings.Contains(v, "\n"):
		return `"` + quoting.Replace(v) + `"`
	case reserved(v), strings.ContainsAny(v, ":#{}[],&*?|>'\"%@`"), v[0] == '-', v[0] == ' ', v != strip(v):
		return `"` + quoting.Replace(v) + `"`
	case v[0] == '!', strings.Contains(v, "\t"): // a tag; an error
		return escaped(v)
	}
	return v
}

var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func reserved(v string) bool {
	switch v {
	case "~", "null", "Null", "NULL",
		"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON",
		"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return true
	}
	return false
}

// unsafe tells the characters that a reader refuses or takes for the end of a line.
func unsafe(r rune) bool {
	return !allowed(r) || r == '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// blockSafe tells whether text survives as a block: every reader takes the
// indentation from the first line that has any.
func blockSafe(text string) bool {
	return !strings.HasPrefix(strings.TrimLeft(text, "\n"), " ") && !strings.ContainsFunc(text, unsafe)
}

// escaped is a value as one line in double quotes that every reader gives back.
func escaped(v string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range v {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case !unsafe(r):
			b.WriteRune(r)
		case r <= 0xff:
			fmt.Fprintf(&b, `\x%02X`, r)
		default:
			fmt.Fprintf(&b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
