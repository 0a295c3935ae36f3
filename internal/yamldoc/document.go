// Package yamldoc decodes a YAML document that a person has written into a struct, and says of
// all that is wrong in it where it is, what it is, and what to write instead. It allows no
// anchors, no aliases and no second document.
package yamldoc

import (
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Document is what is known of a document that was decoded: its keys, and what is wrong.
// A key is written as a path, like limits.rate[0].burst.
type Document struct {
	options Options
	errs    []*Error
	skipped []*Error
	gone    map[string]*yaml.Node // the values of skipped settings
	failed  map[string]bool       // keys of errs
	lines   map[string]int        // the line of each key
}

// Options say how a document is decoded.
type Options struct {
	File      string            // names the document in errors
	Examples  map[string]string // by key: the remedy for a text that needs more than quotes to be valid
	Gone      map[string]string // settings of an earlier version that are skipped, and what to write instead; * is for any name
	LooseText bool              // text that looks like a number, a truth value or a date needs no quotes
}

// Decode decodes data into v, a pointer to a struct whose fields have their keys as the tag yaml.
// The content of v is valid only if the document has no errors.
func Decode(data []byte, v any, o Options) *Document {
	d := &Document{options: o, failed: make(map[string]bool), lines: make(map[string]int), gone: make(map[string]*yaml.Node)}
	if root := d.readDocument(data); root != nil {
		d.decodeValue("", root, reflect.ValueOf(v).Elem())
	}
	return d
}

// IsSet reports whether the document has a key.
func (d *Document) IsSet(key string) bool { return d.lines[key] != 0 }

// FindLine returns the line of a key, or 0 if the document does not have it.
func (d *Document) FindLine(key string) int { return d.lines[key] }

// ListLines returns the line of each key.
func (d *Document) ListLines() map[string]int { return d.lines }

// AddValueError reports err, if any, about the value of a key, unless the document does not set
// the key or something was reported there.
func (d *Document) AddValueError(key string, err error) {
	if err == nil || !d.IsSet(key) || d.failed[key] {
		return
	}
	d.addError(d.lines[key], key, "bad "+Quote(key), err.Error())
}

func (d *Document) addError(line int, key, problem, remedy string) {
	d.failed[key] = true
	d.errs = append(d.errs, &Error{File: d.options.File, Line: line, Key: key, Problem: problem, Remedy: remedy})
}

// MaxErrors bounds the errors that are listed of one document.
const MaxErrors = 20

// ListErrors returns what is wrong, in the order of the document: the first MaxErrors, and then
// one that counts the others.
func (d *Document) ListErrors() []*Error {
	list := slices.Clone(d.errs)
	slices.SortStableFunc(list, func(a, b *Error) int { return a.Line - b.Line })
	if more := len(list) - MaxErrors; more > 0 {
		list = append(list[:MaxErrors], &Error{File: d.options.File, Problem: fmt.Sprintf("%d more errors", more)})
	}
	return list
}

// ListSkipped returns the settings of the document that are skipped, in its order.
func (d *Document) ListSkipped() []*Error { return d.skipped }

// ReadSkipped returns the numbers of a setting that was skipped, by their keys.
func (d *Document) ReadSkipped(key string) (numbers map[string]float64) {
	_ = d.gone[key].Decode(&numbers) // leaves out what is not a number
	return numbers
}

// Error is one thing wrong with a document.
type Error struct {
	File    string
	Line    int    // from 1; may be 0
	Key     string // which is wrong, or under which it is wrong; may be ""
	Problem string
	Remedy  string
}

func (e *Error) Error() string {
	text := e.File
	if e.Line > 0 {
		text = fmt.Sprintf("%s:%d", text, e.Line)
	}
	text += ": " + e.Problem
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// OwnWords returns the text.
func (e *Error) OwnWords() string { return e.Error() }

// JoinKey appends a name to the key of the mapping that contains it.
func JoinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// Quote returns text of a document in quotes, its first 100 bytes if it is longer.
func Quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return fmt.Sprintf("%q", s)
}
