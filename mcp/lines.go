package mcp

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

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
		line, tooLong, err := r.readLine()
		if len(bytes.TrimSpace(line)) > 0 || tooLong {
			if refusal := checkLine(line, tooLong); refusal == "" {
				r.rest = append(bytes.TrimSpace(line), '\n')
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

// readLine reads a line. Of one that is too long it keeps nothing.
func (r *lineReader) readLine() (line []byte, tooLong bool, err error) {
	for {
		part, err := r.in.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) >= maxLine; tooLong {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, tooLong, err
		}
	}
}

// checkLine returns the answer to a line that is no message, "" if it is one.
func checkLine(line []byte, tooLong bool) string {
	refuse := func(code int, why string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, why)
	}
	switch {
	case tooLong:
		return refuse(-32600, "the line is too long")
	case jsonscan.IsNestedDeeper(line, maxNested):
		var call struct {
			ID     jsontext.Value `json:"id"`
			Method string         `json:"method"`
		}
		if err := json.Unmarshal(line, &call); err == nil && call.Method == "tools/call" && (call.ID.Kind() == '"' || call.ID.Kind() == '0') {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[{"type":"text","text":"invalid: the arguments nest deeper than %d"}]}}`+"\n", call.ID, maxNested)
		}
		return refuse(-32600, "the message nests too deep")
	case !jsontext.Value(line).IsValid():
		return refuse(-32700, "not JSON")
	}
	var m struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Method  *string        `json:"method"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.Version != "2.0" {
		return refuse(-32600, "not a JSON-RPC 2.0 message")
	}
	var number int64
	switch kind := m.ID.Kind(); {
	case kind == '0' && json.Unmarshal(m.ID, &number) != nil, kind == '{', kind == '[', kind == 't', kind == 'f':
		return refuse(-32600, "id: expected a string or an integer")
	case m.Method == nil && kind != '"' && kind != '0':
		return refuse(-32600, "method: missing")
	}
	return ""
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
