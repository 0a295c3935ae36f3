// Package jsonscan finds where the parts of a JSON text end, and validates most texts, many times
// faster than a parser.
//
// What only delimits returns an index without meaning, but within the text, for what is not JSON.
package jsonscan

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Members calls value for each member of the object that begins at text[at], with the member's
// name as it is written, quotes included, and the index at which its value begins. value returns
// the index after the value, or -1 to end the walk. Members returns the index after the object.
// It returns -1 if the walk was ended or the object is not well formed.
func Members(text []byte, at int, value func(name []byte, at int) int) int {
	if byteAt(text, at) != '{' {
		return -1
	}
	return elements(text, at, '}', func(at int) int {
		if byteAt(text, at) != '"' {
			return -1
		}
		end := SkipString(text, at)
		if end < 0 {
			return -1
		}
		name := text[at:end]
		if at = SkipSpace(text, end); byteAt(text, at) != ':' {
			return -1
		}
		return value(name, SkipSpace(text, at+1))
	})
}

// elements calls element with the index of each element of the object or array that begins at
// text[at], and returns what [Members] does.
func elements(text []byte, at int, last byte, element func(at int) int) int {
	if at = SkipSpace(text, at+1); byteAt(text, at) == last {
		return at + 1
	}
	for {
		end := element(at)
		if end < 0 {
			return -1
		}
		switch at = SkipSpace(text, end); byteAt(text, at) {
		case ',':
			at = SkipSpace(text, at+1)
		case last:
			return at + 1
		default:
			return -1
		}
	}
}

// SkipValue returns the index after the JSON value that begins at text[at], or -1 if there is
// none. It validates numbers and literals. It delimits objects and arrays by counting brackets.
func SkipValue(text []byte, at int) int {
	switch byteAt(text, at) {
	case '"':
		return SkipString(text, at)
	case '{', '[':
		return skipNested(text, at)
	case 't':
		return skipLiteral(text, at, "true")
	case 'f':
		return skipLiteral(text, at, "false")
	case 'n':
		return skipLiteral(text, at, "null")
	}
	return skipNumber(text, at)
}

func skipNested(text []byte, at int) int {
	for depth := 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := SkipString(text, at)
			if end < 0 {
				return -1
			}
			at = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		}
	}
	return -1
}

func skipLiteral(text []byte, at int, word string) int {
	if bytes.HasPrefix(text[at:], []byte(word)) {
		return at + len(word)
	}
	return -1
}

func skipNumber(text []byte, at int) int {
	if byteAt(text, at) == '-' {
		at++
	}
	whole := at
	if at = skipDigits(text, at); at == whole || text[whole] == '0' && at > whole+1 {
		return -1
	}
	if byteAt(text, at) == '.' {
		fraction := at + 1
		if at = skipDigits(text, fraction); at == fraction {
			return -1
		}
	}
	if c := byteAt(text, at); c == 'e' || c == 'E' {
		at++
		if c := byteAt(text, at); c == '+' || c == '-' {
			at++
		}
		exponent := at
		if at = skipDigits(text, exponent); at == exponent {
			return -1
		}
	}
	return at
}

func skipDigits(text []byte, at int) int {
	for at < len(text) && '0' <= text[at] && text[at] <= '9' {
		at++
	}
	return at
}

// byteAt returns the byte at an index, or 0, which is nowhere in JSON, if the index is behind
// the text.
func byteAt(text []byte, at int) byte {
	if at < len(text) {
		return text[at]
	}
	return 0
}

// IsObject reports whether text is one JSON object, whose inside is delimited and not validated.
func IsObject(text []byte) bool {
	at := SkipSpace(text, 0)
	return byteAt(text, at) == '{' && SkipSpace(text, max(SkipValue(text, at), 0)) == len(text)
}

// Unquote returns the text of a JSON string. The text aliases quoted if nothing is escaped.
func Unquote(quoted []byte) ([]byte, error) {
	inner := quoted[1 : len(quoted)-1]
	for _, c := range inner {
		if c < ' ' || c > '~' || c == '\\' {
			return jsontext.AppendUnquote(nil, quoted)
		}
	}
	return inner, nil
}

// SkipString returns the index after the string at text[at:], or -1 if the string does
// not end. A quote ends it unless an odd number of backslashes stands before the quote.
func SkipString(text []byte, at int) int {
	first := at + 1
	for at = first; ; {
		i := bytes.IndexByte(text[at:], '"')
		if i < 0 {
			return -1
		}
		end := at + i
		at = end
		for at > first && text[at-1] == '\\' {
			at--
		}
		if (end-at)%2 == 0 {
			return end + 1
		}
		at = end + 1
	}
}

// SkipSpace returns the index of the first byte from text[at] on that is no white space,
// or the text's length.
func SkipSpace(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// IsNestedDeeper reports whether text nests more than most objects and arrays. A text with few
// brackets cannot, and counting them is many times faster than walking.
func IsNestedDeeper(text []byte, most int) bool {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= most {
		return false
	}
	for at, depth := 0, 0; at < len(text); at++ {
		switch text[at] {
		case '"':
			end := SkipString(text, at)
			if end < 0 {
				return false
			}
			at = end - 1
		case '{', '[':
			if depth++; depth > most {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
