package mailbox

import (
	"fmt"
	"unicode/utf16"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// FormatJSON formats v byte for byte as the reference tool prints it: only ASCII, with a space
// after each comma, or indented by two. It adds no newline.
func FormatJSON(v any, indent bool) ([]byte, error) {
	layout := json.JoinOptions(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if indent {
		layout = jsontext.WithIndent("  ")
	}
	b, err := json.Marshal(v, layout, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	out := make([]byte, 0, len(b))
	for _, r := range string(b) { // letters beyond ASCII, which are only in strings, become escapes of four hex digits
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out, err
}
