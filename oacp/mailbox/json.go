package mailbox

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// JSON renders v byte for byte as the reference tool prints it: ASCII only, with a
// space after each comma of a line, or indented by two. Nothing ends the last line.
func JSON(v any, indent bool) ([]byte, error) {
	layout := json.JoinOptions(jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true))
	if indent {
		layout = jsontext.WithIndent("  ")
	}
	b, err := json.Marshal(v, layout, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, err
	}
	return escape(b), nil
}

// escape writes what is not printable ASCII, which in JSON stands only in strings,
// as \uXXXX.
func escape(b []byte) []byte {
	plain := 0
	for plain < len(b) && b[plain] < 0x7f {
		plain++
	}
	out := b[:plain:plain]
	for rest := b[plain:]; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		rest = rest[n:]
		switch {
		case r < 0x7f:
			out = append(out, byte(r))
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = unit(unit(out, high), low)
		default:
			out = unit(out, r)
		}
	}
	return out
}

func unit(b []byte, u rune) []byte {
	const digits = "0123456789abcdef"
	return append(b, '\\', 'u', digits[u>>12&15], digits[u>>8&15], digits[u>>4&15], digits[u&15])
}
