package setup

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tailscale/hujson"

	"github.com/acpd/acpd/internal/jsonscan"
)

// maxJSONDepth bounds how deep objects and arrays may nest in a file that is edited: the parser calls
// itself for each of them.
const maxJSONDepth = 200

// emptyJSON is the object that an empty file means.
const emptyJSON = "{}\n"

// jsonText is a JSON text.
type jsonText struct {
	text []byte
	root hujson.Value
}

// openRelaxedJSON reads a text that is one JSON object, in which comments, and a comma behind the last
// entry, are no errors. An empty text means an empty object.
func openRelaxedJSON(text []byte) (document, error) {
	d := &jsonText{text: text}
	if len(bytes.TrimSpace(text)) == 0 {
		d.text = []byte(emptyJSON)
	}
	return d, d.read()
}

// openJSON reads a text that is one JSON object as the standard has it.
func openJSON(text []byte) (document, error) {
	d, err := openRelaxedJSON(text)
	if err != nil {
		return nil, err
	}
	var v jsontext.Value
	err = json.Unmarshal(d.bytes(), &v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	if e, isInvalid := errors.AsType[*jsontext.SyntacticError](err); isInvalid {
		return nil, errorAt(text, int(e.ByteOffset), "it is not valid JSON, which has no comments, and no comma behind the last entry")
	}
	return d, err
}

func (d *jsonText) bytes() []byte { return d.text }

func (d *jsonText) read() (err error) {
	if isNestedTooDeep(d.text) {
		return fmt.Errorf("it has more than %d objects and arrays in each other", maxJSONDepth)
	}
	d.root, err = hujson.Parse(slices.Concat(d.text, []byte("\n"))) // the parser wants a line end behind each comment
	if err != nil {
		line := 1
		fmt.Sscanf(err.Error(), "hujson: line %d", &line) // the rest of the error shows parts of the file
		return fmt.Errorf("line %d: it is not valid JSON", min(line, 1+bytes.Count(d.text, []byte("\n"))))
	}
	if d.root.Value.Kind() != '{' {
		return errorAt(d.text, d.root.StartOffset, "expected an object")
	}
	return nil
}

// isNestedTooDeep reports whether a text, which may have comments, nests more than maxJSONDepth objects
// and arrays.
func isNestedTooDeep(text []byte) bool {
	for at, depth := 0, 0; at < len(text); at++ {
		rest, skipped := text[at:], 0
		switch {
		case rest[0] == '{' || rest[0] == '[':
			depth++
		case rest[0] == '}' || rest[0] == ']':
			depth--
		case rest[0] == '"':
			skipped = jsonscan.SkipString(rest, 0)
		case bytes.HasPrefix(rest, []byte("//")):
			skipped = bytes.IndexByte(rest, '\n')
		case bytes.HasPrefix(rest, []byte("/*")):
			skipped = bytes.Index(rest[2:], []byte("*/")) + len("/**/")
		}
		if depth > maxJSONDepth {
			return true
		}
		at += max(skipped-1, 0)
	}
	return false
}

// apply replaces parts of the text, which are in order and do not overlap, and reads it again.
func (d *jsonText) apply(changes ...splice) error {
	d.text = applySplices(d.text, changes...)
	return d.read()
}

// jsonEntry is a member of an object or an element of an array.
type jsonEntry struct {
	name  string
	start int // of the name, or of the element
	value *hujson.Value
	comma int // the index of the comma behind the entry, -1 without one
}

// listEntries returns the entries of an object or array, none for another value.
func listEntries(c *hujson.Value) (entries []jsonEntry) {
	switch c := c.Value.(type) {
	case *hujson.Object:
		for i := range c.Members {
			m := &c.Members[i]
			entries = append(entries, jsonEntry{m.Name.Value.(hujson.Literal).String(), m.Name.StartOffset, &m.Value, 0})
		}
	case *hujson.Array:
		for i := range c.Elements {
			e := &c.Elements[i]
			entries = append(entries, jsonEntry{"", e.StartOffset, e, 0})
		}
	}
	for i := range entries {
		v := entries[i].value
		entries[i].comma = v.EndOffset + len(v.AfterExtra)
		if i == len(entries)-1 && v.AfterExtra == nil { // so the parser marks that no comma follows
			entries[i].comma = -1
		}
	}
	return entries
}

// find returns the value at a path, nil if it does not exist. The values on the way to it must be objects.
func (d *jsonText) find(path ...string) (*hujson.Value, error) {
	v := &d.root
	for i, name := range path {
		if v.Value.Kind() != '{' {
			return nil, errorAt(d.text, v.StartOffset, "%s is no object: remove it or make it one, then run setup again", strings.Join(path[:i], "."))
		}
		var found *hujson.Value
		for _, e := range listEntries(v) {
			switch {
			case e.name != name:
			case found != nil:
				return nil, errorAt(d.text, e.start, "%q is there twice: remove one of them, then run setup again", name)
			default:
				found = e.value
			}
		}
		if v = found; v == nil {
			return nil, nil
		}
	}
	return v, nil
}

func (d *jsonText) get(path ...string) (value any, found bool, err error) {
	v, err := d.find(path...)
	if err != nil || v == nil {
		return nil, false, err
	}
	plain := v.Clone()
	plain.Minimize()
	if value, err = decodeJSON(plain.Pack()); err != nil {
		err = errorAt(d.text, v.StartOffset, "a name in %s is there twice: remove one of them, then run setup again", strings.Join(path, "."))
	}
	return value, true, err
}

func (d *jsonText) set(value any, path ...string) error {
	old, found, err := d.get(path...)
	if err != nil {
		return err
	}
	if found {
		if now, err := decodeJSON([]byte(formatValue(value))); err != nil || reflect.DeepEqual(old, now) {
			return err
		}
		v, err := d.find(path...)
		if err != nil {
			return err
		}
		return d.apply(splice{span{v.StartOffset, v.EndOffset}, formatValue(value)})
	}
	for last := len(path) - 1; ; last-- {
		parent, err := d.find(path[:last]...)
		if err != nil {
			return err
		}
		if parent != nil {
			return d.insert(parent, formatValue(path[last])+": ", value)
		}
		value = object{{path[last], value}}
	}
}

// addStrings adds strings to the array at a path, without those that it has, and makes it if it is
// missing.
func (d *jsonText) addStrings(list []string, path ...string) error {
	value, found, err := d.get(path...)
	if err != nil {
		return err
	}
	if !found {
		return d.set(list, path...)
	}
	for _, s := range list {
		v, err := d.find(path...)
		switch {
		case err != nil:
			return err
		case v.Value.Kind() != '[':
			return errorAt(d.text, v.StartOffset, "%s is no list: remove it or make it one, then run setup again", strings.Join(path, "."))
		case slices.Contains(listStrings(value), s):
			continue
		}
		if err := d.insert(v, "", s); err != nil {
			return err
		}
	}
	return nil
}

// insert puts a new entry behind the others of an object or array, on a line of its own if theirs are,
// or if it is the first one in a file of several lines. prefix comes before the value.
func (d *jsonText) insert(c *hujson.Value, prefix string, value any) error {
	entries, closing := listEntries(c), c.EndOffset-1
	content := len(bytes.TrimRight(d.text[:closing], " \t\r\n")) // comments included
	outer, eol := d.indentAt(c.StartOffset), lineEnd(d.text)
	if len(entries) == 0 {
		if c != &d.root && !d.hasLines(&d.root, d.root.EndOffset) {
			return d.apply(splice{span{content, closing}, prefix + formatValue(value)})
		}
		indent, end := outer+d.indentUnit(), ""
		if bytes.IndexByte(d.text[content:closing], '\n') < 0 {
			end = eol + outer
		}
		return d.apply(splice{span{content, content}, eol + indent + prefix + d.formatLines(value, indent) + end})
	}
	first, last := entries[0], entries[len(entries)-1]
	at, added, comma := last.value.EndOffset, " "+prefix+formatValue(value), ","
	if last.comma >= 0 {
		at = last.comma + 1
	}
	if d.hasLines(c, first.start) {
		indent := d.indentAt(first.start)
		at, added = content, eol+indent+prefix+d.formatLines(value, indent)
	}
	if last.comma >= 0 {
		return d.apply(splice{span{at, at}, added + comma})
	}
	return d.apply(splice{span{last.value.EndOffset, last.value.EndOffset}, comma}, splice{span{at, at}, added})
}

// hasLines reports whether there is a line end between the bracket of an object or array and an index.
func (d *jsonText) hasLines(c *hujson.Value, end int) bool {
	return bytes.IndexByte(d.text[c.StartOffset:end], '\n') >= 0
}

// indentAt returns the white space with which the line of text[at] begins.
func (d *jsonText) indentAt(at int) string {
	line := d.text[startOfLine(d.text, at):at]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// indentUnit returns by how much the text indents.
func (d *jsonText) indentUnit() string {
	if entries := listEntries(&d.root); len(entries) > 0 && d.hasLines(&d.root, entries[0].start) {
		if indent := d.indentAt(entries[0].start); indent != "" {
			return indent
		}
	}
	return "  "
}

// formatLines returns a value on lines of its own: the members of objects. All but the first line are
// indented by indent and more.
func (d *jsonText) formatLines(value any, indent string) string {
	members, isObject := value.(object)
	if !isObject {
		return formatValue(value)
	}
	eol, inner := lineEnd(d.text)+indent, indent+d.indentUnit()
	lines := make([]string, len(members))
	for i, m := range members {
		lines[i] = lineEnd(d.text) + inner + formatValue(m.name) + ": " + d.formatLines(m.value, inner)
	}
	return "{" + strings.Join(lines, ",") + eol + "}"
}

func (d *jsonText) remove(path ...string) error {
	parent := path[:len(path)-1]
	c, err := d.find(parent...)
	if err != nil || c == nil {
		return err
	}
	if v, err := d.find(path...); err != nil || v == nil {
		return err
	}
	return d.removeEntry(parent, slices.IndexFunc(listEntries(c), func(e jsonEntry) bool { return e.name == path[len(path)-1] }))
}

// removeStrings takes strings out of the array at a path.
func (d *jsonText) removeStrings(list []string, path ...string) error {
	for {
		c, err := d.find(path...)
		if err != nil || c == nil || c.Value.Kind() != '[' {
			return err
		}
		at := slices.IndexFunc(listEntries(c), func(e jsonEntry) bool {
			return e.value.Value.Kind() == '"' && slices.Contains(list, e.value.Value.(hujson.Literal).String())
		})
		if at < 0 {
			return nil
		}
		if err := d.removeEntry(path, at); err != nil {
			return err
		}
	}
}

// removeEntry takes away an entry of the object or array at a path, with its comma, and with the lines
// that have nothing else. An object or array that becomes empty goes too.
func (d *jsonText) removeEntry(path []string, i int) error {
	c, err := d.find(path...)
	if err != nil {
		return err
	}
	entries := listEntries(c)
	e, inside := entries[i], span{c.StartOffset + 1, c.EndOffset - 1}
	gone := span{e.start, max(e.value.EndOffset, e.comma+1)}
	if rest := slices.Concat(d.text[inside.start:gone.start], d.text[gone.end:inside.end]); len(bytes.TrimSpace(rest)) == 0 {
		if len(path) > 0 {
			return d.remove(path...)
		}
		return d.apply(splice{inside, ""})
	}
	var changes []splice
	if i > 0 && i == len(entries)-1 && e.comma < 0 {
		comma := entries[i-1].comma
		changes = append(changes, splice{span{comma, comma + 1}, ""})
	}
	before := len(bytes.TrimRight(d.text[:gone.start], " \t"))
	behind := gone.end + len(d.text[gone.end:]) - len(bytes.TrimLeft(d.text[gone.end:], " \t"))
	switch {
	case before > 0 && d.text[before-1] == '\n' && bytes.HasPrefix(bytes.TrimPrefix(d.text[behind:], []byte("\r")), []byte("\n")):
		gone = span{len(bytes.TrimSuffix(d.text[:before-1], []byte("\r"))), behind}
	case i == len(entries)-1:
		gone.start = before
	case behind == entries[i+1].start:
		gone.end = behind
	}
	return d.apply(append(changes, splice{gone, ""})...)
}
