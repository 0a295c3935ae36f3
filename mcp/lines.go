package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/acpd/acpd/internal/jsonscan"
)

// maxNested is how deep a message of the program's may nest: the SDK ends on a deeper one.
const maxNested = 1000

// lineReader gives the SDK the lines that are messages. It answers the others itself, as the SDK
// ends the session on one.
type lineReader struct {
	in   *bufio.Reader
	out  io.Writer
	rest []byte // of the line that is being read
}

func newLineReader(in io.Reader, out io.Writer) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, 64<<10), out: out}
}

// Read blocks until a line is there that is a message.
func (r *lineReader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, long, err := r.readLine()
		if line = bytes.TrimSpace(line); long != nil || len(line) > 0 {
			refusal := ""
			if long != nil {
				refusal = refuse(long.readCall(), codeInvalid, "the line is too long")
			} else {
				refusal = checkLine(line)
			}
			if refusal == "" {
				r.rest = append(line, '\n')
			} else if _, err := io.WriteString(r.out, refusal); err != nil {
				return 0, err
			}
		}
		if err != nil && len(r.rest) == 0 {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// readLine reads a line. If the line is too long, it returns only the outline.
func (r *lineReader) readLine() (line []byte, long *outline, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if long == nil && len(line)+len(part) >= maxLine {
			long = new(outline)
			long.add(line)
			line = nil
		}
		if long != nil {
			long.add(part)
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// outline is the top level of a JSON text, with null for each object and list in it. It is
// made of texts that are too long, or nest too deep, for a parser.
type outline struct {
	text              []byte // at most maxOutline bytes; what is over it is left out
	depth             int
	inString, escaped bool
}

const maxOutline = 64 << 10

// add reads the next part of the text.
func (o *outline) add(part []byte) {
	for _, c := range part {
		top := o.depth <= 1
		switch {
		case o.escaped:
			o.escaped = false
		case o.inString:
			o.escaped, o.inString = c == '\\', c != '"'
		case c == '"':
			o.inString = true
		case c == '{', c == '[':
			if o.depth++; o.depth == 2 && len(o.text) < maxOutline {
				o.text = append(o.text, "null"...)
			}
			top = o.depth <= 1
		case c == '}', c == ']':
			o.depth--
			top = o.depth <= 0
		}
		if top && len(o.text) < maxOutline {
			o.text = append(o.text, c)
		}
	}
}

// lineCall says which call a line is.
type lineCall struct {
	ID     jsontext.Value `json:"id"`
	Method string         `json:"method"`
}

// readCall returns the call that the text is; nothing of it is set if that cannot be read.
func (o *outline) readCall() (c lineCall) {
	if json.Unmarshal(o.text, &c, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return lineCall{}
	}
	return c
}

func readCall(text []byte) lineCall {
	var o outline
	o.add(text)
	return o.readCall()
}

// hasID reports whether the call can be answered. A message without a method is the program's answer to a
// call of ours, and its id is not one of the program's calls.
func (c *lineCall) hasID() bool {
	return c.Method != "" && (c.ID.Kind() == '"' || c.ID.Kind() == '0' && json.Unmarshal(c.ID, new(int64)) == nil)
}

// The JSON-RPC error codes for invalid messages.
const (
	codeNoJSON  = jsonrpc.CodeParseError
	codeInvalid = jsonrpc.CodeInvalidRequest
)

// refuse returns the answer to an invalid message. It has the call's id if there is one.
func refuse(c lineCall, code int, why string) string {
	id := jsontext.Value("null")
	if c.hasID() {
		id = c.ID
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%q}}`+"\n", id, code, why)
}

// checkLine returns the answer to a line that is not a valid message, or "" if the line is valid. The SDK
// would end the session on such a line.
func checkLine(line []byte) string {
	if jsonscan.IsNestedDeeper(line, maxNested) {
		c := readCall(line)
		if c.Method == "tools/call" && c.hasID() {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[{"type":"text","text":"invalid: the arguments nest deeper than %d"}]}}`+"\n", c.ID, maxNested)
		}
		return refuse(c, codeInvalid, "the message nests too deep")
	}
	if !utf8.Valid(line) || !jsontext.Value(line).IsValid(jsontext.AllowInvalidUTF8(true)) { // half a surrogate pair is valid
		return refuse(readCall(line), codeNoJSON, "not JSON")
	}
	if line[0] == '[' {
		return refuseBatch(line)
	}
	c := readCall(line)
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return refuse(c, codeInvalid, "not a JSON-RPC 2.0 message")
	}
	return checkIDs(line)
}

// refuseBatch returns an answer for each call of a batch, or a single one if the batch has no calls.
func refuseBatch(line []byte) string {
	const why = "batches are not served: send one message a line"
	var calls []jsontext.Value
	var all strings.Builder
	if json.Unmarshal(line, &calls) == nil {
		for _, text := range calls {
			if c := readCall(text); c.hasID() {
				all.WriteString(refuse(c, codeInvalid, why))
			}
		}
	}
	if all.Len() == 0 {
		return refuse(lineCall{}, codeInvalid, why)
	}
	return all.String()
}

// lockedWriter lets the SDK and a [lineReader] write lines in turn.
type lockedWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}
