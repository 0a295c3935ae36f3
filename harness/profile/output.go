package profile

import (
	"bytes"
	"errors"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxLine   = 4 << 20 // bytes of a line, and of an answer
	maxReason = 1024    // bytes of the reason of a failure, and of the name of a tool
)

// sessionID is what may follow a flag of a command line.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)

// ownSession is the id of each conversation of a command, which gets no id: it finds its files in its home.
const ownSession = "home"

// reading is what was understood of a program's output so far. It is an [io.Writer] for it.
type reading struct {
	read     func(r *reading, event any) // reads an object; nil if what is printed is the answer
	progress func(text string)           // may be nil

	rest []byte // an unfinished line

	done      bool // the output is complete: else the run has failed
	session   string
	text      []byte
	failed    bool
	why       string
	cost      float64
	hasCost   bool
	tokens    uint64
	hasTokens bool
	denials   []string // names of tools that the model was not allowed
}

var errLongLine = errors.New("it printed a line that is longer than it may be")

func (r *reading) Write(p []byte) (int, error) {
	if r.read == nil {
		r.text = append(r.text, p[:min(len(p), maxLine-len(r.text))]...)
		return len(p), nil // bounded by the run's output
	}
	r.rest = append(r.rest, p...)
	begin := 0
	for {
		end := bytes.IndexByte(r.rest[begin:], '\n')
		if end < 0 {
			break
		}
		r.readObject(r.rest[begin : begin+end])
		begin += end + 1
	}
	r.rest = append(r.rest[:0], r.rest[begin:]...)
	if len(r.rest) > maxLine {
		return 0, errLongLine
	}
	return len(p), nil
}

// finish reads what no line end has ended.
func (r *reading) finish() {
	if r.read == nil {
		r.done, r.session, r.hasTokens = true, ownSession, true // none
		return
	}
	r.readObject(r.rest)
	r.rest = nil
}

// readObject reads a line. Text that is no JSON object means nothing.
func (r *reading) readObject(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return
	}
	var event any
	if json.Unmarshal(text, &event, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) == nil {
		r.read(r, event)
	}
}

// setSession takes the id of the conversation from an event.
func (r *reading) setSession(event any, path string) {
	if s := firstText(event, path); sessionID.MatchString(s) {
		r.session = s
	}
}

// setText takes the answer from an event. A later one replaces it.
func (r *reading) setText(event any, path string) {
	if text, ok := joinTexts(event, path); ok {
		r.text = append(r.text[:0], text...)
	}
}

// setReason takes from an event why the run has failed.
func (r *reading) setReason(event any, path string) {
	if why, ok := joinTexts(event, path); ok && why != "" {
		r.why = why[:min(len(why), maxReason)]
	}
}

// setCost takes the cost in US dollars from an event, and reports whether it has one.
func (r *reading) setCost(event any, path string) bool {
	costs := lookUp(event, path)
	if len(costs) == 0 {
		return false
	}
	n, ok := costs[0].(float64)
	if !ok || n < 0 || n >= 1e6 {
		return false
	}
	r.cost, r.hasCost = n, true
	return true
}

// mostTokens bounds a number of tokens that is believed.
const mostTokens = 1e12

// setTokens takes the sum of numbers of tokens from an event, and reports whether it has any.
func (r *reading) setTokens(event any, paths ...string) bool {
	sum, found := uint64(0), false
	for _, path := range paths {
		for _, v := range lookUp(event, path) {
			if n, ok := v.(float64); ok && n >= 0 && n <= mostTokens && n == math.Trunc(n) {
				sum, found = min(sum+uint64(n), mostTokens), true
			}
		}
	}
	if found {
		r.tokens, r.hasTokens = sum, true
	}
	return found
}

func (r *reading) addDenials(event any, path string) {
	for _, v := range lookUp(event, path) {
		s := scalarText(v)
		s = strings.ToValidUTF8(s[:min(len(s), maxReason)], "")
		if s != "" && len(r.denials) < maxNamed && !slices.Contains(r.denials, s) {
			r.denials = append(r.denials, s)
		}
	}
}

// say passes on what the model says while it works.
func (r *reading) say(event any, path string) {
	if text, ok := joinTexts(event, path); ok && r.progress != nil && strings.TrimSpace(text) != "" {
		r.progress(text)
	}
}

// lookUp returns the values at a path: keys with dots between them, and * for every item of a list.
func lookUp(v any, path string) []any {
	at := []any{v}
	for key := range strings.SplitSeq(path, ".") {
		var next []any
		for _, v := range at {
			switch v := v.(type) {
			case map[string]any:
				if below, ok := v[key]; ok {
					next = append(next, below)
				}
			case []any:
				if key == "*" {
					next = append(next, v...)
				}
			}
		}
		at = next
	}
	return at
}

// joinTexts returns the texts at a path with line breaks between them. ok is false without a text.
func joinTexts(v any, path string) (text string, ok bool) {
	var all []string
	for _, v := range lookUp(v, path) {
		if s, is := v.(string); is {
			all = append(all, s)
		}
	}
	return strings.Join(all, "\n"), len(all) > 0
}

func firstText(v any, path string) string {
	for _, v := range lookUp(v, path) {
		return scalarText(v)
	}
	return ""
}

// hasPrefix reports whether a text at a path has a beginning.
func hasPrefix(v any, path, prefix string) bool { return strings.HasPrefix(firstText(v, path), prefix) }

// scalarText returns a text, a number or a truth value as text, "" for anything else.
func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}
