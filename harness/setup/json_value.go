package setup

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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
			return -1, d.errorAt(e.start, "%q is there twice: remove one of them, then run setup again", name)
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
			return span{}, false, d.errorAt(value.start, "%s is no object: remove it or make it one, then run setup again", strings.Join(path[:i+1], "."))
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
