package jsonrpc

import (
	"fmt"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/acpd/acpd/internal/jsonscan"
)

// LineMargin is the size in bytes that a line may have beyond the largest envelope.
const LineMargin = 64 << 10

const maxID = 256 // bytes of a request's id

// parsedLine is one line that came: a request or notification if hasMethod, a response if
// isResponse. Its values alias the line. Only the id is validated.
type parsedLine struct {
	id           jsontext.Value // as it came; nil: none
	hasMethod    bool
	isResponse   bool
	method       string
	params       jsontext.Value // or the result
	errorText    jsontext.Value // the member error
	paramsObject scannedObject  // params, if they are an object
}

var parsedLines = sync.Pool{New: func() any { return new(parsedLine) }}

// returnToPool gives m back to its pool; its values stay as they are.
func (m *parsedLine) returnToPool() {
	m.paramsObject = scannedObject{} // which keeps no line
	m.id, m.params, m.errorText = nil, nil, nil
	m.method, m.hasMethod, m.isResponse = "", false, false
	parsedLines.Put(m)
}

// parseLine reads one line. If it fails, the line still has the id that was found, and the
// caller answers with the error under that id.
func (m *parsedLine) parseLine(line []byte) *Error {
	var o scannedObject
	end := o.scan(line, jsonscan.SkipSpace(line, 0), &m.paramsObject)
	switch {
	case end >= 0 && jsonscan.SkipSpace(line, end) == len(line) && o.err == nil:
	case end >= 0 && o.err != nil:
		return newInvalidRequestError("%v", o.err)
	case jsontext.Value(line).IsValid():
		return newInvalidRequestError("expected an object; batches are not served")
	default:
		return &Error{Code: CodeParse, Message: "parse error: expected one JSON object on a line"}
	}
	var rpc string
	var result, badID bool
	for i := range o.count {
		name, v := o.memberAt(i)
		switch string(name) {
		case "jsonrpc":
			v.ReadString(&rpc)
		case "id":
			if badID = !isValidID(v); !badID {
				m.id = jsontext.Value(v)
			}
		case "method":
			m.hasMethod = v.ReadString(&m.method) == nil && v[0] == '"'
		case "params":
			m.params = jsontext.Value(v)
		case "result":
			result = true
			m.params = jsontext.Value(v)
		case "error":
			m.errorText = jsontext.Value(v)
		}
	}
	m.isResponse = !m.hasMethod && (result || m.errorText != nil)
	switch {
	case badID && !m.isResponse:
		return newInvalidRequestError("id: expected a string or a number of at most %d bytes", maxID)
	case o.err != nil:
		return newInvalidRequestError("%v", o.err)
	case rpc != "2.0":
		return newInvalidRequestError(`jsonrpc: expected "2.0"`)
	case m.isResponse && result && m.errorText != nil:
		return newInvalidRequestError("a response has either result or error")
	case m.isResponse:
		return nil
	case !m.hasMethod:
		return newInvalidRequestError("method: expected a string")
	case result:
		return newInvalidRequestError("either method or result")
	case m.params != nil && m.params[0] != '{' && m.params[0] != '[':
		return newInvalidRequestError("params: expected an object")
	}
	return nil
}

func newInvalidRequestError(format string, args ...any) *Error {
	return &Error{Code: CodeInvalidRequest, Message: "invalid request: " + fmt.Sprintf(format, args...)}
}

func isValidID(id []byte) bool {
	if len(id) > maxID {
		return false
	}
	switch c := id[0]; {
	case c == '"':
		return isPlainString(id) || jsontext.Value(id).IsValid()
	case c == '-' || c >= '0' && c <= '9':
		return true // skip has validated it
	}
	return false
}
