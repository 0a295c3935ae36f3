package config

import (
	"reflect"
	"strings"

	"github.com/acpd/acpd/internal/yamldoc"
)

// RenderReferenceFile returns a commented configuration file that shows every setting
// with its documentation and an example. Nothing in it is in force; with the
// first # of each line removed it is a file that does what the examples say. A setting with the tag
// instead, which excludes the one that it names, has one # more.
func RenderReferenceFile() string {
	var w referenceWriter
	w.writeProse("", "Settings of acpd. Each is shown with an example; to use one, remove the first # of its line and of the lines above it that it belongs to.")
	w.writeSettings("", reflect.TypeFor[Config]())
	return w.String()
}

// referenceWriter writes a file in which every line begins with #, and prose with a
// second one.
type referenceWriter struct{ strings.Builder }

func (w *referenceWriter) writeLine(parts ...string) {
	w.WriteString(strings.TrimRight("#"+strings.Join(parts, ""), " ") + "\n")
}

// writeProse writes text in lines of at most 80 columns.
func (w *referenceWriter) writeProse(indent, text string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len("#"+indent+"# "+line+" "+word) > 80 {
			w.writeLine(indent, "# ", line)
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	w.writeLine(indent, "# ", line)
}

// writeSettings writes the settings that a struct holds.
func (w *referenceWriter) writeSettings(indent string, t reflect.Type) {
	for f := range t.Fields() {
		if f.Tag.Get("yaml") == "-" {
			continue
		}
		if indent == "" {
			w.WriteString("\n")
		}
		name, below := f.Tag.Get("yaml"), indent+"  "
		w.writeProse(indent, f.Tag.Get("doc"))
		switch {
		case name == yamldoc.Inline:
			w.writeLine(indent, f.Tag.Get("key"), ":")
			w.writeSettings(below, f.Type.Elem())
		case f.Tag.Get("instead") != "":
			w.writeLine(indent, "# ", name, ": ", f.Tag.Get("example"))
		case f.Tag.Get("example") != "":
			w.writeLine(indent, name, ": ", f.Tag.Get("example"))
		case f.Type.Kind() == reflect.Struct:
			w.writeLine(indent, name, ":")
			w.writeSettings(below, f.Type)
		case f.Type.Kind() == reflect.Map:
			w.writeLine(indent, name, ":")
			w.writeLine(below, f.Tag.Get("key"), ":")
			w.writeSettings(below+"  ", f.Type.Elem())
		case f.Type.Kind() == reflect.Slice:
			w.writeLine(indent, name, ":")
			w.writeLine(below, "-")
			w.writeSettings(below+"  ", f.Type.Elem())
		}
	}
}
