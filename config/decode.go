package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser turns a YAML document into a Config and collects what is wrong.
type parser struct {
	file   string
	errs   []*Error
	failed map[string]bool // keys of errs
	lines  map[string]int  // the line of each key
}

func (p *parser) addError(line int, key, problem, remedy string) {
	p.failed[key] = true
	p.errs = append(p.errs, &Error{File: p.file, Line: line, Problem: problem, Remedy: remedy})
}

// textExamples says, by its key, how a text is written that quotes alone would not make valid.
var textExamples = map[string]string{
	"listen":          "write host:port, like 0.0.0.0:7117",
	"channels.listen": "write host:port, like 127.0.0.1:7118",
}

// decodeValue decodes n, found under key, into v, of which the type decides what is
// allowed.
func (p *parser) decodeValue(key string, n *yaml.Node, v reflect.Value) {
	// want says what v takes, example how that is written.
	want, example := "", ""
	ok := false
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		want, example, ok = "settings", "put each on a line of its own, as key: value", n.Kind == yaml.MappingNode
	case reflect.Slice:
		want, example, ok = "a list", "write [a, b], or one item a line after -", n.Kind == yaml.SequenceNode
	case reflect.String:
		// For a type with words of its own any scalar will do here: checkOneOf names the
		// words, and quotes would help nobody.
		word := v.Type() != reflect.TypeFor[string]()
		want, example, ok = "text", cmp.Or(textExamples[key], "put it in quotes"), isScalarNode(n, "!!str") || word && n.Kind == yaml.ScalarNode
	case reflect.Bool:
		want, example, ok = "true or false", "write one of them, without quotes", isScalarNode(n, "!!bool")
	case reflect.Int64: // no setting but times is one
		want, example, ok = "a time", "write it with its unit, like 500ms, 30s or 24h", isDurationNode(n)
	case reflect.Int:
		want, example, ok = "a whole number", "write digits only", isScalarNode(n, "!!int")
	case reflect.Float64:
		want, example, ok = "a number", "write it like 10 or 0.5", isScalarNode(n, "!!int", "!!float")
	}
	where := quoteClipped(key)
	if key == "" {
		where = "the file"
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.addError(n.Line, key, where+" uses an anchor or alias", "write the value out")
		return
	case isScalarNode(n, "!!null"):
		p.addError(n.Line, key, where+" has no value", "give it one or remove the line")
		return
	case !ok:
		p.addError(n.Line, key, fmt.Sprintf("%s must be %s, not %s", where, want, describeYAMLNode(n)), example)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		p.decodeObject(key, n, v)
	case reflect.Map:
		p.decodeMap(key, n, v)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", key, i)
			p.lines[at] = item.Line
			p.decodeValue(at, item, v.Index(i))
		}
	default:
		if err := n.Decode(v.Addr().Interface()); err != nil {
			p.addError(n.Line, key, fmt.Sprintf("%s cannot be %s", where, describeYAMLNode(n)), "use another number")
		}
	}
}

// inline is the tag of a map in a struct that takes the keys which no other field has.
const inline = ",inline"

// decodeObject decodes a mapping whose keys are the fields of v.
func (p *parser) decodeObject(key string, n *yaml.Node, v reflect.Value) {
	fields := make(map[string]reflect.Value)
	var names []string
	var others reflect.Value // the inline map, if there is one
	for f, field := range v.Fields() {
		name := f.Tag.Get("yaml")
		if name == inline {
			others = field
			continue
		}
		fields[name] = field
		names = append(names, name)
	}
	p.forEachPair(key, n, func(name, at string, line int, value *yaml.Node) {
		field, ok := fields[name]
		if !ok && others.IsValid() {
			if others.IsNil() {
				others.Set(reflect.MakeMap(others.Type()))
			}
			p.decodeMapItem(at, name, value, others)
			return
		}
		if !ok {
			remedy := "valid here: " + strings.Join(names, ", ")
			if n := findNearestWord(name, names); n != "" {
				remedy = fmt.Sprintf("did you mean %s?", quoteClipped(joinKey(key, n)))
			}
			p.addError(line, at, "unknown key "+quoteClipped(at), remedy)
			return
		}
		p.decodeValue(at, value, field)
	})
}

// decodeMap decodes a mapping whose keys people choose.
func (p *parser) decodeMap(key string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	p.forEachPair(key, n, func(name, at string, _ int, value *yaml.Node) { p.decodeMapItem(at, name, value, v) })
}

// decodeMapItem decodes the value of one key of the map v.
func (p *parser) decodeMapItem(at, name string, n *yaml.Node, v reflect.Value) {
	item := reflect.New(v.Type().Elem()).Elem()
	p.decodeValue(at, n, item)
	v.SetMapIndex(reflect.ValueOf(name), item)
}

// forEachPair calls each for every key of n that is text and comes first.
func (p *parser) forEachPair(key string, n *yaml.Node, each func(name, at string, line int, value *yaml.Node)) {
	seen := make(map[string]int)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			p.addError(k.Line, key, "a key that is no plain text", "write the key out, in quotes if it is unusual")
			continue
		}
		at := joinKey(key, k.Value)
		if first, ok := seen[k.Value]; ok {
			p.addError(k.Line, at, fmt.Sprintf("%s is set again, after line %d", quoteClipped(at), first), "remove one of them")
			continue
		}
		seen[k.Value], p.lines[at] = k.Line, k.Line
		each(k.Value, at, k.Line, n.Content[i+1])
	}
}

// isDurationNode reports whether n is a time.
func isDurationNode(n *yaml.Node) bool {
	_, err := time.ParseDuration(n.Value)
	return err == nil && isScalarNode(n, "!!str")
}

func isScalarNode(n *yaml.Node, tags ...string) bool {
	return n.Kind == yaml.ScalarNode && slices.Contains(tags, n.ShortTag())
}

// describeYAMLNode returns what n is, for an error.
func describeYAMLNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "settings"
	case yaml.SequenceNode:
		return "a list"
	}
	return quoteClipped(n.Value)
}

// joinKey appends a name to the key that it stands under.
func joinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// quoteClipped returns text of the file in quotes, its first 100 bytes if it is longer.
func quoteClipped(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return fmt.Sprintf("%q", s)
}
