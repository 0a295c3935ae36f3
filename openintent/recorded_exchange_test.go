package openintent_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// exchange is a request and its answer.
type exchange struct {
	*recorder
	name         string // for the record
	method, path string
	request      string // as it is written down
	conn         net.Conn
	began        time.Time
	over         chan struct{} // closed when all of the answer is there
	err          error         // why it is not

	mu    sync.Mutex // guards what follows
	head  *http.Response
	body  []byte
	ended time.Time
}

// begin sends a request: line is its method and target.
func (r *recorder) begin(who caller, line, body string, headers ...string) *exchange {
	r.t.Helper()
	r.sent++
	method, target, _ := strings.Cut(line, " ")
	path, _, _ := strings.Cut(target, "?")
	x := &exchange{recorder: r, name: fmt.Sprint(r.part, " ", r.sent), method: method, path: path, began: time.Now(), over: make(chan struct{})}
	headers = slices.Concat(who.headers, headers)
	var b strings.Builder
	fmt.Fprintf(&b, "%s HTTP/1.1\r\nHost: localhost\r\n", line)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	says := func(name string) bool {
		return slices.ContainsFunc(headers, func(h string) bool { return strings.HasPrefix(h, name) })
	}
	if body != "" && !says("Content-Type") {
		b.WriteString("Content-Type: application/json\r\n")
	}
	if body != "" && !says("Transfer-Encoding") || slices.Contains([]string{"POST", "PUT", "PATCH"}, method) {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	b.WriteString("\r\n" + body)

	x.request = r.named(line)
	if len(line) > 300 {
		x.request = fmt.Sprintf("%s… (%d bytes)", line[:60], len(line))
	}
	if who.door != "" {
		x.request += fmt.Sprintf(" (by %.6s)", who.door)
	}

	here, there := net.Pipe()
	x.conn = here
	r.conns <- opened{there, who.door}
	go io.WriteString(here, b.String()) // the answer may come before all of it is read
	go x.read()
	return x
}

// read reads the answer.
func (x *exchange) read() {
	defer close(x.over)
	head, err := http.ReadResponse(bufio.NewReader(x.conn), &http.Request{Method: x.method})
	if err != nil {
		x.err = err
		return
	}
	x.mu.Lock()
	x.head = head
	x.mu.Unlock()
	b := make([]byte, 32<<10)
	for {
		n, err := head.Body.Read(b)
		x.mu.Lock()
		x.body = append(x.body, b[:n]...)
		if err != nil {
			x.ended = time.Now()
		}
		x.mu.Unlock()
		if err != nil {
			if err != io.EOF {
				x.err = err
			}
			return
		}
	}
}

// end waits for all of the answer and writes it down.
func (x *exchange) end() *exchange {
	x.t.Helper()
	<-x.over
	if x.err != nil {
		x.t.Fatalf("%s: %v\n%s", x.name, x.err, x.request)
	}
	x.write()
	x.close()
	return x
}

func (x *exchange) close() {
	x.conn.Close()
	<-x.over
	synctest.Wait()
	time.Sleep(100 * time.Millisecond) // so that times differ
}

// write writes down what there is of the answer.
func (x *exchange) write() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.statuses[x.method+" "+x.path] = append(x.statuses[x.method+" "+x.path], x.head.StatusCode)
	answer := strconv.Itoa(x.head.StatusCode)
	if took := x.ended.Sub(x.began); !x.ended.IsZero() && took > 0 {
		answer += " after " + took.String()
	}
	x.record(x.name, answer, x.body)
}

// record writes down a line.
func (x *exchange) record(name, answer string, body []byte) {
	x.entries = append(x.entries, strings.TrimSpace(fmt.Sprintf("%s: %q: %s %s", name, x.request, answer, keysOf(body))))
}

// do is one request and its answer.
func (r *recorder) do(who caller, line, body string, headers ...string) *exchange {
	r.t.Helper()
	return r.begin(who, line, body, headers...).end()
}

// open begins to follow a stream and writes down its head and what it says at once.
func (r *recorder) open(who caller, line string, headers ...string) *exchange {
	r.t.Helper()
	x := r.begin(who, line, "", headers...)
	synctest.Wait()
	x.write()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.body = nil
	return x
}

// tells writes down what a stream has said meanwhile, and ends it.
func (x *exchange) tells() {
	x.t.Helper()
	synctest.Wait()
	x.mu.Lock()
	x.record(fmt.Sprintf("%s, before %d", x.name, x.sent+1), "says", x.body)
	x.mu.Unlock()
	x.close()
}

// str returns a member of the answer.
func (x *exchange) str(name string) string {
	x.t.Helper()
	var all map[string]any
	if err := json.Unmarshal(x.body, &all); err != nil {
		x.t.Fatalf("%s: %v in %s", x.name, err, x.body)
	}
	text, ok := all[name].(string)
	if !ok {
		x.t.Fatalf("%s: no %s in %s", x.name, name, x.body)
	}
	return text
}

func (x *exchange) id() string {
	x.t.Helper()
	return x.str("id")
}
