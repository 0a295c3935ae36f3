package setup

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxJSONDepth bounds how deep objects and arrays may nest in a file that is edited.
const maxJSONDepth = 200

// maxWordsOnLine bounds how many strings of a new list stand on one line; those of a longer
// one have a line each.
const maxWordsOnLine = 3

// object is a JSON object as setup writes it: its members in this order. A value is a
// string, a bool, a list of strings or an object.
type object []member

type member struct {
	name  string
	value any
}

// jsonText is a JSON text that is edited by position: what an edit does not concern stays as
// it is, byte for byte.
type jsonText struct {
	text    []byte
	relaxed bool // comments, and a comma behind the last member, are no errors
}

// span is a part of a text.
type span struct{ start, end int }

// entry is a member of an object or an element of an array.
type entry struct {
	name  string
	start int // of the name, or of the element
	value span
	comma int // the index of the comma behind the entry, -1 if there is none
}

// container is an object or an array.
type container struct {
	open, close int // the indexes of its brackets
	entries     []entry
}

// splice replaces a part of a text.
type splice struct {
	span
	with string
}

// newJSONText returns a text that is one whole JSON object. An empty text stands for an empty object.
func newJSONText(text []byte, relaxed bool) (*jsonText, error) {
	d := &jsonText{text, relaxed}
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if len(bytes.TrimSpace(text)) == 0 {
		d.text = []byte("{}\n")
	}
	at, err := d.skipSpace(d.begin())
	if err != nil {
		return nil, err
	}
	if at == len(d.text) || d.text[at] != '{' {
		return nil, d.errorAt(at, "expected an object")
	}
	if at, err = d.skipValue(at, 0); err == nil {
		at, err = d.skipSpace(at)
	}
	if err == nil && at < len(d.text) {
		err = d.errorAt(at, "text behind the object")
	}
	return d, err
}

// begin returns the index behind a byte order mark.
func (d *jsonText) begin() int {
	if bytes.HasPrefix(d.text, []byte("\ufeff")) {
		return len("\ufeff")
	}
	return 0
}

// errorAt returns an error that names a place in the text, and shows nothing of it.
func (d *jsonText) errorAt(at int, format string, args ...any) error {
	return fmt.Errorf("line %d: %s", 1+bytes.Count(d.text[:min(at, len(d.text))], []byte{'\n'}), fmt.Sprintf(format, args...))
}

// skipSpace returns the index of the first byte from at on that is neither white space nor
// part of a comment.
func (d *jsonText) skipSpace(at int) (int, error) {
	for at < len(d.text) {
		switch rest := d.text[at:]; {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			at++
		case rest[0] != '/':
			return at, nil
		case !d.relaxed:
			return at, d.errorAt(at, "a comment, which this file cannot have")
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			at += end
		case bytes.HasPrefix(rest, []byte("/*")):
			end := bytes.Index(rest[2:], []byte("*/"))
			if end < 0 {
				return at, d.errorAt(at, "a comment that does not end")
			}
			at += end + 4
		default:
			return at, d.errorAt(at, "a slash outside a string")
		}
	}
	return at, nil
}

// skipValue checks the value at text[at:] and returns the index behind it.
func (d *jsonText) skipValue(at, depth int) (int, error) {
	if at == len(d.text) {
		return at, d.errorAt(at, "the text ends in the middle")
	}
	switch c := d.text[at]; {
	case c == '{' || c == '[':
		if depth == maxJSONDepth {
			return at, d.errorAt(at, "more than %d objects and arrays in each other", maxJSONDepth)
		}
		_, end, err := d.readContainer(at, depth, false)
		return end, err
	case c == '"':
		return d.skipString(at)
	}
	end := at
	for end < len(d.text) && strings.IndexByte(" \t\r\n,:{}[]\"/", d.text[end]) < 0 {
		end++
	}
	if word := jsontext.Value(d.text[at:end]); !word.IsValid() {
		return at, d.errorAt(at, "expected a value")
	}
	return end, nil
}

func (d *jsonText) skipString(at int) (int, error) {
	if at == len(d.text) || d.text[at] != '"' {
		return at, d.errorAt(at, "expected a string")
	}
	for i := at + 1; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '\\':
			i++
		case c < ' ':
			return at, d.errorAt(i, "a string that does not end on its line")
		case c == '"':
			if _, err := jsontext.AppendUnquote(nil, d.text[at:i+1]); err != nil {
				return at, d.errorAt(at, "a string that is not valid")
			}
			return i + 1, nil
		}
	}
	return at, d.errorAt(at, "a string that does not end")
}

// readContainer checks the object or array at text[at:], and returns it and the index behind
// it. Unless keep is true, it does not list the entries.
func (d *jsonText) readContainer(at, depth int, keep bool) (c container, end int, err error) {
	c.open = at
	isObject := d.text[at] == '{'
	closing := map[bool]byte{true: '}', false: ']'}[isObject]
	at++
	for first := true; ; first = false {
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		if at == len(d.text) {
			return c, at, d.errorAt(at, "the text ends in the middle")
		}
		if d.text[at] == closing {
			if !first && !d.relaxed {
				return c, at, d.errorAt(at, "a comma behind the last entry")
			}
			break
		}
		e := entry{start: at, comma: -1}
		if isObject {
			if end, err = d.skipString(at); err != nil {
				return c, at, err
			}
			if keep {
				name, _ := jsontext.AppendUnquote(nil, d.text[at:end])
				e.name = string(name)
			}
			if at, err = d.skipSpace(end); err != nil {
				return c, at, err
			}
			if at == len(d.text) || d.text[at] != ':' {
				return c, at, d.errorAt(at, "expected a colon")
			}
			if at, err = d.skipSpace(at + 1); err != nil {
				return c, at, err
			}
		}
		e.value.start = at
		if at, err = d.skipValue(at, depth+1); err != nil {
			return c, at, err
		}
		e.value.end = at
		if at, err = d.skipSpace(at); err != nil {
			return c, at, err
		}
		more := at < len(d.text) && d.text[at] == ','
		if more {
			e.comma = at
			at++
		}
		if keep {
			c.entries = append(c.entries, e)
		}
		if !more {
			if at == len(d.text) || d.text[at] != closing {
				return c, at, d.errorAt(at, "expected a comma or %q", closing)
			}
			break
		}
	}
	c.close = at
	return c, at + 1, nil
}

// readEntries returns the object or array at text[at:], which was checked.
func (d *jsonText) readEntries(at int) container {
	c, _, _ := d.readContainer(at, 0, true)
	return c
}

// readRoot returns the object that the text is.
func (d *jsonText) readRoot() container {
	at, _ := d.skipSpace(d.begin())
	return d.readEntries(at)
}

// findMember returns the index of the member of that name, -1 if there is none. Two of one
// name are an error: programs differ in which one they take.
func (d *jsonText) findMember(c container, name string) (int, error) {
	found := -1
	for i, e := range c.entries {
		if e.name != name {
			continue
		}
		if found >= 0 {
			return -1, d.errorAt(e.start, "%q stands there twice", name)
		}
		found = i
	}
	return found, nil
}

// findValue returns the value that path names, and whether there is one. What is on the way
// to it must be objects.
func (d *jsonText) findValue(path ...string) (span, bool, error) {
	c := d.readRoot()
	for i, name := range path {
		at, err := d.findMember(c, name)
		if err != nil || at < 0 {
			return span{}, false, err
		}
		value := c.entries[at].value
		if i == len(path)-1 {
			return value, true, nil
		}
		if d.text[value.start] != '{' {
			return span{}, false, d.errorAt(value.start, "%s is no object", strings.Join(path[:i+1], "."))
		}
		c = d.readEntries(value.start)
	}
	return span{}, false, nil
}

// kindOf returns the first byte of a value, which says its kind.
func (d *jsonText) kindOf(v span) byte { return d.text[v.start] }

// readString returns the string that a value is, and whether it is one.
func (d *jsonText) readString(v span) (string, bool) {
	if d.kindOf(v) != '"' {
		return "", false
	}
	s, err := jsontext.AppendUnquote(nil, d.text[v.start:v.end])
	return string(s), err == nil
}

// readStrings returns the strings of the array that a value is, and whether it has only these.
func (d *jsonText) readStrings(v span) (list []string, ok bool) {
	if d.kindOf(v) != '[' {
		return nil, false
	}
	ok = true
	for _, e := range d.readEntries(v.start).entries {
		s, isString := d.readString(e.value)
		ok = ok && isString
		list = append(list, s)
	}
	return list, ok
}

// isEqual reports whether a value of the text means the same as one that setup would write.
func (d *jsonText) isEqual(v span, value any) bool {
	switch value := value.(type) {
	case string:
		s, ok := d.readString(v)
		return ok && s == value
	case bool:
		return string(d.text[v.start:v.end]) == fmt.Sprint(value)
	case []string:
		list, ok := d.readStrings(v)
		return ok && slices.Equal(list, value)
	case object:
		if d.kindOf(v) != '{' {
			return false
		}
		c := d.readEntries(v.start)
		for _, m := range value {
			at, err := d.findMember(c, m.name)
			if err != nil || at < 0 || !d.isEqual(c.entries[at].value, m.value) {
				return false
			}
		}
		return len(c.entries) == len(value)
	}
	return false
}

// set gives the member that path names a value. It makes the objects on the way to it, and
// returns the paths of those that were missing. A value that means the same stays as it is.
func (d *jsonText) set(value any, path ...string) (made [][]string, err error) {
	c := d.readRoot()
	for i, name := range path {
		at, err := d.findMember(c, name)
		if err != nil {
			return nil, err
		}
		last := i == len(path)-1
		switch {
		case at < 0:
			for j := len(path) - 1; j > i; j-- {
				value = object{{path[j], value}}
				made = append(made, path[:j])
			}
			d.insert(c, func(indent string, inline bool) string {
				return quoteJSON(name) + d.colon(inline) + d.format(value, indent, inline)
			})
			return made, nil
		case last:
			v := c.entries[at].value
			if !d.isEqual(v, value) {
				d.apply(splice{v, d.format(value, d.indentOfLine(c.entries[at].start), !d.isOnOwnLine(c))})
			}
			return nil, nil
		}
		v := c.entries[at].value
		if d.kindOf(v) != '{' {
			return nil, d.errorAt(v.start, "%s is no object", strings.Join(path[:i+1], "."))
		}
		c = d.readEntries(v.start)
	}
	return nil, nil
}

// appendStrings appends strings to the array that path names, without those that it has, and makes
// it if it is missing. It returns what [jsonText.set] does, with the path of the array.
func (d *jsonText) appendStrings(list []string, path ...string) (made [][]string, err error) {
	v, found, err := d.findValue(path...)
	switch {
	case err != nil:
		return nil, err
	case !found:
		if made, err = d.set(list, path...); err == nil {
			made = append([][]string{path}, made...)
		}
		return made, err
	case d.kindOf(v) != '[':
		return nil, d.errorAt(v.start, "%s is no list", strings.Join(path, "."))
	}
	have, _ := d.readStrings(v)
	for _, s := range list {
		if !slices.Contains(have, s) {
			d.insert(d.readEntries(v.start), func(string, bool) string { return quoteJSON(s) })
		}
	}
	return nil, nil
}

// remove takes away the member that path names, if it is there.
func (d *jsonText) remove(path ...string) error {
	parent := path[:len(path)-1]
	c := d.readRoot()
	if len(parent) > 0 {
		v, found, err := d.findValue(parent...)
		if err != nil || !found || d.kindOf(v) != '{' {
			return err
		}
		c = d.readEntries(v.start)
	}
	at, err := d.findMember(c, path[len(path)-1])
	if err == nil && at >= 0 {
		d.removeEntry(c, at)
	}
	return err
}

// removeStrings takes strings out of the array that path names.
func (d *jsonText) removeStrings(list []string, path ...string) error {
	for {
		v, found, err := d.findValue(path...)
		if err != nil || !found || d.kindOf(v) != '[' {
			return err
		}
		c := d.readEntries(v.start)
		at := slices.IndexFunc(c.entries, func(e entry) bool {
			s, ok := d.readString(e.value)
			return ok && slices.Contains(list, s)
		})
		if at < 0 {
			return nil
		}
		d.removeEntry(c, at)
	}
}

// removeEmpty takes away those of these objects and arrays that are empty, inner ones first.
func (d *jsonText) removeEmpty(paths [][]string) error {
	paths = slices.Clone(paths)
	slices.SortStableFunc(paths, func(a, b []string) int { return len(b) - len(a) })
	for _, path := range paths {
		v, found, err := d.findValue(path...)
		if err != nil {
			return err
		}
		if !found || d.kindOf(v) != '{' && d.kindOf(v) != '[' || len(bytes.TrimSpace(d.text[v.start+1:v.end-1])) > 0 {
			continue
		}
		if err := d.remove(path...); err != nil {
			return err
		}
	}
	return nil
}

// isOnOwnLine reports whether the entries of c stand on lines of their own; for an empty one,
// whether they should.
func (d *jsonText) isOnOwnLine(c container) bool {
	if len(c.entries) == 0 {
		root := d.readRoot()
		return len(root.entries) == 0 || bytes.IndexByte(d.text[root.open:root.close], '\n') >= 0
	}
	return bytes.IndexByte(d.text[c.open:c.entries[0].start], '\n') >= 0
}

// indentOfLine returns the white space with which the line of text[at] begins.
func (d *jsonText) indentOfLine(at int) string {
	start := max(bytes.LastIndexByte(d.text[:at], '\n')+1, d.begin())
	end := start
	for end < at && (d.text[end] == ' ' || d.text[end] == '\t') {
		end++
	}
	return string(d.text[start:end])
}

// indentUnit returns by how much the text indents.
func (d *jsonText) indentUnit() string {
	if root := d.readRoot(); len(root.entries) > 0 && d.isOnOwnLine(root) {
		if unit := strings.TrimPrefix(d.indentOfLine(root.entries[0].start), d.indentOfLine(root.open)); unit != "" {
			return unit
		}
	}
	return "  "
}

// lineEnd returns how the lines of the text end.
func lineEnd(text []byte) string {
	if i := bytes.IndexByte(text, '\n'); i > 0 && text[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// colon returns what stands between a name and its value.
func (d *jsonText) colon(inline bool) string {
	if inline {
		return ":"
	}
	return ": "
}

// format returns a value as text. Its own lines are indented by indent and more.
func (d *jsonText) format(value any, indent string, inline bool) string {
	switch value := value.(type) {
	case string:
		return quoteJSON(value)
	case []string:
		words := make([]string, len(value))
		for i, s := range value {
			words[i] = quoteJSON(s)
		}
		if eol := lineEnd(d.text) + indent; !inline && len(words) > maxWordsOnLine {
			inner := eol + d.indentUnit()
			return "[" + inner + strings.Join(words, ","+inner) + eol + "]"
		}
		return "[" + strings.Join(words, map[bool]string{true: ",", false: ", "}[inline]) + "]"
	case object:
		inner, begin, between, end := indent+d.indentUnit(), "", ",", ""
		if !inline {
			eol := lineEnd(d.text)
			begin, between, end = eol+inner, ","+eol+inner, eol+indent
		}
		words := make([]string, len(value))
		for i, m := range value {
			words[i] = quoteJSON(m.name) + d.colon(inline) + d.format(m.value, inner, inline)
		}
		if len(words) == 0 {
			return "{}"
		}
		return "{" + begin + strings.Join(words, between) + end + "}"
	}
	return fmt.Sprint(value)
}

func quoteJSON(s string) string {
	b, _ := jsontext.AppendQuote(nil, s)
	return string(b)
}

// insert puts a new entry behind the others of c.
func (d *jsonText) insert(c container, format func(indent string, inline bool) string) {
	eol, outer, lines := lineEnd(d.text), d.indentOfLine(c.open), d.isOnOwnLine(c)
	content := c.open + 1 // behind what c has, comments included
	if n := len(c.entries); n > 0 {
		content = max(c.entries[n-1].value.end, c.entries[n-1].comma+1)
	}
	hasComments := false
	for at := content; ; hasComments = true {
		for at < c.close && strings.IndexByte(" \t\r\n", d.text[at]) >= 0 {
			at++
		}
		if at == c.close {
			break
		}
		at = d.skipComment(at)
		content = at
	}
	switch n := len(c.entries); {
	case n == 0 && !hasComments && lines:
		indent := outer + d.indentUnit()
		d.apply(splice{span{c.open + 1, c.close}, eol + indent + format(indent, false) + eol + outer})
	case n == 0 && !hasComments:
		d.apply(splice{span{c.open + 1, c.close}, format("", true)})
	case n == 0:
		indent, end := outer+d.indentUnit(), ""
		if bytes.IndexByte(d.text[content:c.close], '\n') < 0 {
			end = eol + outer
		}
		d.apply(splice{span{content, content}, eol + indent + format(indent, false) + end})
	case lines:
		last := c.entries[n-1]
		indent := d.indentOfLine(c.entries[0].start)
		if last.comma >= 0 {
			d.apply(splice{span{content, content}, eol + indent + format(indent, false) + ","})
		} else {
			d.apply(splice{span{last.value.end, last.value.end}, ","}, splice{span{content, content}, eol + indent + format(indent, false)})
		}
	default:
		last := c.entries[n-1]
		gap := ""
		if n > 1 && d.text[c.entries[0].comma+1] == ' ' {
			gap = " "
		}
		if last.comma >= 0 {
			d.apply(splice{span{last.comma + 1, last.comma + 1}, gap + format("", true) + ","})
		} else {
			d.apply(splice{span{last.value.end, last.value.end}, "," + gap + format("", true)})
		}
	}
}

// skipComment returns the index behind the comment at text[at:], which was checked.
func (d *jsonText) skipComment(at int) int {
	if d.text[at+1] == '*' {
		return at + 4 + bytes.Index(d.text[at+2:], []byte("*/"))
	}
	end := at + bytes.IndexByte(d.text[at:], '\n') // there is one before the bracket
	return len(bytes.TrimRight(d.text[:end], "\r"))
}

// removeEntry takes away an entry and its comma. If it stands on lines of its own, they go too.
func (d *jsonText) removeEntry(c container, i int) {
	e, last := c.entries[i], i == len(c.entries)-1
	start, end := e.start, e.value.end
	if e.comma >= 0 && len(bytes.TrimSpace(d.text[end:e.comma])) == 0 {
		end = e.comma + 1
	}
	lineStart := start
	for lineStart > 0 && (d.text[lineStart-1] == ' ' || d.text[lineStart-1] == '\t') {
		lineStart--
	}
	restOfLine := end
	for restOfLine < len(d.text) && strings.IndexByte(" \t\r", d.text[restOfLine]) >= 0 {
		restOfLine++
	}
	var extra []splice
	switch {
	case lineStart > 0 && d.text[lineStart-1] == '\n' && restOfLine < len(d.text) && d.text[restOfLine] == '\n':
		start = lineStart - 1
		if start > 0 && d.text[start-1] == '\r' {
			start--
		}
		for d.text[restOfLine-1] == '\r' {
			restOfLine--
		}
		end = restOfLine
	case !last:
		end = c.entries[i+1].start
		if bytes.ContainsAny(d.text[e.value.end:end], "/\n") { // foreign comments stay
			end = e.comma + 1
		}
	default:
		start = lineStart
	}
	if last && i > 0 && e.comma < 0 {
		comma := c.entries[i-1].comma
		extra = append(extra, splice{span{comma, comma + 1}, ""})
	}
	d.apply(append(extra, splice{span{start, end}, ""})...)
	if len(c.entries) == 1 {
		if c = d.readEntries(c.open); len(bytes.TrimSpace(d.text[c.open+1:c.close])) == 0 {
			d.apply(splice{span{c.open + 1, c.close}, ""})
		}
	}
}

// apply replaces parts of the text, which are in order and do not overlap.
func (d *jsonText) apply(changes ...splice) { d.text = applySplices(d.text, changes...) }

func applySplices(text []byte, changes ...splice) []byte {
	var out []byte
	at := 0
	for _, c := range changes {
		out = append(append(out, text[at:c.start]...), c.with...)
		at = c.end
	}
	return append(out, text[at:]...)
}
