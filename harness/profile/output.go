package profile

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Output says what the JSON means that a program prints on its standard output.
type Output struct {
	Format     string `yaml:"format"`     // json: one object; jsonl: an object a line, and lines that are none are left out
	Cumulative bool   `yaml:"cumulative"` // tokens count the whole conversation, not this run alone
	Rules      []Rule `yaml:"rules"`
}

// Rule reads the objects that match. Its other fields are paths into such an object: keys and
// indexes with dots between them, and * for every item of a list.
type Rule struct {
	When map[string]string `yaml:"when"` // by path, what the value is as text, or its beginning and a *; none: every object
	Done bool              `yaml:"done"` // the output is complete: without such an object the run has failed

	Session    string `yaml:"session"`    // id of the conversation, to resume it
	Text       string `yaml:"text"`       // the answer; the last one counts
	Append     bool   `yaml:"append"`     // instead, all texts, one after the other
	Structured string `yaml:"structured"` // the answer by the schema
	Failed     string `yaml:"failed"`     // true: the run has failed
	Error      string `yaml:"error"`      // why
	Fails      bool   `yaml:"fails"`      // the run has failed if there is such an object
	Cost       string `yaml:"cost"`       // in US dollars
	Tokens     words  `yaml:"tokens"`     // added up
	Sum        bool   `yaml:"sum"`        // cost and tokens are those of a step: they are added up
	Denials    string `yaml:"denials"`    // names of tools that the model was not allowed
	Progress   string `yaml:"progress"`   // what the model says while it works
}

const (
	maxLine     = 4 << 20 // bytes of a line
	maxDenials  = 16
	maxDenial   = 64   // bytes
	maxProgress = 1024 // bytes
	maxText     = 4 << 20
)

// sessionID is what may follow a flag of a command line.
var sessionID = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}$`)

// check returns an error that names the key of what cannot be, and says what can.
func (o *Output) check() error {
	switch {
	case o.Format == "" && len(o.Rules) == 0:
		return errors.New("output: it is missing, so no answer would be found: write output: {format: json, rules: [{done: true, text: KEY}]}, where KEY has the answer in the object that the program prints")
	case o.Format != "json" && o.Format != "jsonl":
		return fmt.Errorf("output: format: %q: use json for one object, or jsonl for an object a line", o.Format)
	case !slices.ContainsFunc(o.Rules, func(r Rule) bool { return r.Done }):
		return errors.New("output: rules: none has done: true, so no run would ever have succeeded: add it to the rule that reads the answer, like {done: true, text: KEY}")
	case o.Format == "jsonl" && slices.ContainsFunc(o.Rules, func(r Rule) bool { return len(r.When) == 0 }):
		return errors.New("output: rules: one has no when, and would match every line: add one, like when: {type: result}")
	}
	return nil
}

// reading is what was understood of a program's output so far. It is an [io.Writer] for it.
type reading struct {
	output   *Output
	progress func(text string) // nil: nobody hears

	rest []byte // an unfinished line; with format json, all

	done       bool
	session    string
	text       []byte
	structured jsontext.Value
	failed     bool
	why        string
	cost       float64
	hasCost    bool
	tokens     uint64
	hasTokens  bool
	denials    []string
}

var errLongLine = errors.New("it printed a line that is longer than it may be")

func (r *reading) Write(p []byte) (int, error) {
	r.rest = append(r.rest, p...)
	if r.output.Format == "json" {
		return len(p), nil // bounded by the run's output
	}
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

// finish reads what no line break has ended.
func (r *reading) finish() {
	r.readObject(r.rest)
	r.rest = nil
}

// readObject applies the rules to an object. Text that is no JSON object means nothing.
func (r *reading) readObject(text []byte) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 || text[0] != '{' {
		return
	}
	var object any
	if json.Unmarshal(text, &object, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return
	}
	for i := range r.output.Rules {
		if rule := &r.output.Rules[i]; rule.matches(object) {
			r.apply(rule, object)
		}
	}
}

func (rule *Rule) matches(object any) bool {
	for path, want := range rule.When {
		if !slices.ContainsFunc(lookUp(object, path), func(v any) bool { return matchesText(scalarText(v), want) }) {
			return false
		}
	}
	return true
}

// matchesText reports whether text is what a rule wants: the same, or with the beginning that
// stands before a * at the end.
func matchesText(text, want string) bool {
	if begin, ok := strings.CutSuffix(want, "*"); ok {
		return strings.HasPrefix(text, begin)
	}
	return text == want
}

func (r *reading) apply(rule *Rule, object any) {
	r.done = r.done || rule.Done
	if s := firstText(object, rule.Session); sessionID.MatchString(s) {
		r.session = s
	}
	if text, ok := joinTexts(object, rule.Text); ok {
		if !rule.Append {
			r.text = r.text[:0]
		}
		r.text = append(r.text, text[:min(len(text), max(0, maxText-len(r.text)))]...)
	}
	for _, v := range lookUp(object, rule.Structured) {
		if text, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true)); err == nil && v != nil {
			r.structured = text
		}
	}
	r.failed = r.failed || rule.Fails || firstText(object, rule.Failed) == "true"
	if why, ok := joinTexts(object, rule.Error); ok && why != "" {
		r.why = why[:min(len(why), maxProgress)]
	}
	if costs := lookUp(object, rule.Cost); len(costs) > 0 {
		if n, ok := costs[0].(float64); ok && n >= 0 && n < 1e6 {
			r.hasCost = true
			if !rule.Sum {
				r.cost = 0
			}
			r.cost += n
		}
	}
	if n, ok := sumTokens(object, rule.Tokens); ok {
		r.hasTokens = true
		if !rule.Sum {
			r.tokens = 0
		}
		r.tokens = min(r.tokens+n, 1e12)
	}
	for _, v := range lookUp(object, rule.Denials) {
		s := scalarText(v)
		s = strings.ToValidUTF8(s[:min(len(s), maxDenial)], "")
		if s != "" && len(r.denials) < maxDenials && !slices.Contains(r.denials, s) {
			r.denials = append(r.denials, s)
		}
	}
	if r.progress != nil {
		if text, ok := joinTexts(object, rule.Progress); ok && strings.TrimSpace(text) != "" {
			r.progress(text)
		}
	}
}

// sumTokens adds up numbers. ok is false if there are none.
func sumTokens(object any, paths []string) (sum uint64, ok bool) {
	for _, path := range paths {
		for _, v := range lookUp(object, path) {
			if n, is := v.(float64); is && n >= 0 && n <= 1e12 && n == math.Trunc(n) {
				sum, ok = min(sum+uint64(n), 1e12), true
			}
		}
	}
	return sum, ok
}

// lookUp returns the values at a path, none for the empty path.
func lookUp(v any, path string) []any {
	if path == "" {
		return nil
	}
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
				} else if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(v) {
					next = append(next, v[i])
				}
			}
		}
		at = next
	}
	return at
}

// joinTexts returns the texts at a path with line breaks between them. ok is false if there
// are none.
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
