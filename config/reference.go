package config

import (
	"reflect"
	"strings"
)

// Reference returns a commented configuration file that shows every setting
// with its documentation and an example. Nothing in it is in force; with the
// first # of each line removed it is a file that does what the examples say.
func Reference() string {
	var w reference
	w.prose("", "Settings of acpd. Each is shown with an example; to use one, remove the first # of its line and of the lines that it stands under.")
	w.object("", reflect.TypeFor[Config]())
	return w.String()
}

// reference writes a file in which every line begins with #, and prose with a
// second one.
type reference struct{ strings.Builder }

func (w *reference) line(parts ...string) {
	w.WriteString(strings.TrimRight("#"+strings.Join(parts, ""), " ") + "\n")
}

// prose writes text in lines of at most 80 columns.
func (w *reference) prose(indent, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len("#"+indent+"# "+line+" "+word) > 80 {
			w.line(indent, "# ", line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	w.line(indent, "# ", line)
}

// object writes the settings that a struct holds.
func (w *reference) object(indent string, t reflect.Type) {
	for f := range t.Fields() {
		if indent == "" {
			w.WriteString("\n")
		}
		name, below := f.Tag.Get("yaml"), indent+"  "
		w.prose(indent, f.Tag.Get("doc"))
		switch {
		case f.Tag.Get("example") != "":
			w.line(indent, name, ": ", f.Tag.Get("example"))
		case f.Type.Kind() == reflect.Struct:
			w.line(indent, name, ":")
			w.object(below, f.Type)
		case f.Type.Kind() == reflect.Map:
			w.line(indent, name, ":")
			w.line(below, f.Tag.Get("key"), ":")
			w.object(below+"  ", f.Type.Elem())
		case f.Type.Kind() == reflect.Slice:
			w.line(indent, name, ":")
			w.line(below, "-")
			w.object(below+"  ", f.Type.Elem())
		}
	}
}
