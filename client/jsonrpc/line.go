package jsonrpc

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
	"github.com/acpd/acpd/internal/ownwords"
)

// LineMargin is the size in bytes that a line may have beyond the largest envelope.
const LineMargin = 64 << 10

const (
	maxID      = 256 // bytes of a request's id
	maxMembers = 32  // of a line: their names are compared pairwise
)

// parsedLine is one line that came: a request or notification if hasMethod, a response if
// isResponse. Its values alias the line. Only the id is validated.
type parsedLine struct {
	id         jsontext.Value // as it came; nil: none
	hasMethod  bool
	isResponse bool
	method     string
	params     jsontext.Value // or the result
	payload    textRange      // of params
	errorText  jsontext.Value // the member error
}

var parsedLines = sync.Pool{New: func() any { return new(parsedLine) }}

// returnToPool gives m back to its pool; its values stay as they are.
func (m *parsedLine) returnToPool() {
	*m = parsedLine{}
	parsedLines.Put(m)
}

// parseLine reads one line. If it fails, the caller answers with the error under the id, which
// the line still has if it is one object and each name is given once.
func (m *parsedLine) parseLine(line []byte) *Error {
	var rpc string
	var hasResult, badID bool
	var names memberNames
	end := jsonscan.Members(line, jsonscan.SkipSpace(line, 0), func(quoted []byte, at int) int {
		name := names.add(quoted)
		var end int
		var payload textRange
		switch string(name) {
		case "params", "result":
			end, payload = skipParams(line, at)
		default:
			end = jsonscan.SkipValue(line, at)
		}
		if end < 0 {
			return end
		}
		value := jsontext.Value(line[at:end:end])
		switch string(name) {
		case "jsonrpc":
			rpc, _ = readString(value)
		case "id":
			if badID = !isValidID(value); !badID {
				m.id = value
			}
		case "method":
			m.method, m.hasMethod = readString(value)
		case "params":
			m.params, m.payload = value, payload
		case "result":
			hasResult = true
			m.params, m.payload = value, payload
		case "error":
			m.errorText = value
		}
		return end
	})
	isObject := end >= 0 && jsonscan.SkipSpace(line, end) == len(line)
	if !isObject || names.err != nil {
		*m = parsedLine{}
	}
	switch {
	case isObject && names.err != nil:
		return newInvalidRequestError("%v", names.err)
	case !isObject && jsontext.Value(line).IsValid():
		return newInvalidRequestError("expected an object; batches are not served")
	case !isObject:
		return &Error{Code: CodeParse, Message: "parse error: expected one JSON object on a line"}
	}
	m.isResponse = !m.hasMethod && (hasResult || m.errorText != nil)
	switch {
	case badID && !m.isResponse:
		return newInvalidRequestError("id: expected a string or a number of at most %d bytes", maxID)
	case rpc != "2.0":
		return newInvalidRequestError(`jsonrpc: expected "2.0"`)
	case m.isResponse && hasResult && m.errorText != nil:
		return newInvalidRequestError("a response has either result or error")
	case m.isResponse:
		return nil
	case !m.hasMethod:
		return newInvalidRequestError("method: expected a string")
	case hasResult:
		return newInvalidRequestError("either method or result")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return newInvalidRequestError("params: expected an object")
	}
	return nil
}

// memberNames are the names of a line's members.
type memberNames struct {
	list  [maxMembers][]byte
	count int
	err   error // what is wrong with the names
}

// add returns the text of a name. A name that the line has already is an error (RFC 7493,
// section 2.3).
func (n *memberNames) add(quoted []byte) []byte {
	name, err := jsonscan.Unquote(quoted)
	switch {
	case err != nil:
		n.err = ownwords.New("the name of a member is not a well-formed string")
	case n.count == maxMembers:
		n.err = ownwords.Errorf("more than %d members", maxMembers)
	default:
		for _, other := range n.list[:n.count] {
			if bytes.Equal(other, name) {
				n.err = ownwords.Errorf("%.64q is given twice", name)
			}
		}
		n.list[n.count] = name
		n.count++
	}
	return name
}

func newInvalidRequestError(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
}

// readString returns the text of a value that is a well-formed string.
func readString(value []byte) (text string, ok bool) {
	if value[0] != '"' {
		return "", false
	}
	b, err := jsonscan.Unquote(value)
	return string(b), err == nil
}

func isValidID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		_, ok := readString(id)
		return ok
	case c == '-' || c >= '0' && c <= '9':
		return true // SkipValue has validated it
	}
	return false
}
