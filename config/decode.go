package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// parser turns a YAML document into a Config and collects what is wrong.
type parser struct {
	file   string
	errs   []*Error
	failed map[string]bool // keys of errs
	lines  map[string]int  // where each key stands
}

func (p *parser) addError(line int, key, problem, remedy string) {
	p.failed[key] = true
	p.errs = append(p.errs, &Error{File: p.file, Line: line, Problem: problem, Remedy: remedy})
}

func (p *parser) decodeDocument(root *yaml.Node, c *Config) {
	p.decodeValue("", root, reflect.ValueOf(c).Elem())
}

// decodeValue decodes n, found under key, into v, of which the type decides what is
// allowed.
func (p *parser) decodeValue(key string, n *yaml.Node, v reflect.Value) {
	// want is what v takes and how that is written.
	want, example := "", ""
	ok := false
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		want, example, ok = "settings", "put each on a line of its own, as key: value", n.Kind == yaml.MappingNode
	case reflect.Slice:
		want, example, ok = "a list", "write [a, b], or one item a line after -", n.Kind == yaml.SequenceNode
	case reflect.String:
		// What is no text is no word of a list either, and quotes would not make it one:
		// check names the words.
		word := v.Type() != reflect.TypeFor[string]()
		want, example, ok = "text", "put it in quotes", isScalar(n, "!!str") || word && n.Kind == yaml.ScalarNode
	case reflect.Bool:
		want, example, ok = "true or false", "write one of them, without quotes", isScalar(n, "!!bool")
	case reflect.Int64:
		want, example, ok = "a time", "write it with its unit, like 500ms, 30s or 24h", isDuration(n)
	case reflect.Int:
		want, example, ok = "a whole number", "write digits only", isScalar(n, "!!int")
	case reflect.Float64:
		want, example, ok = "a number", "write it like 10 or 0.5", isScalar(n, "!!int", "!!float")
	}
	where := quote(key)
	if key == "" {
		where = "the file"
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		p.addError(n.Line, key, where+" uses an anchor or alias", "write the value out")
		return
	case isScalar(n, "!!null"):
		p.addError(n.Line, key, where+" has no value", "give it one or remove the line")
		return
	case !ok:
		p.addError(n.Line, key, fmt.Sprintf("%s must be %s, not %s", where, want, describeNode(n)), example)
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
			p.addError(n.Line, key, fmt.Sprintf("%s cannot be %s", where, describeNode(n)), "use another number")
		}
	}
}

// decodeObject decodes a mapping whose keys are the fields of v.
func (p *parser) decodeObject(key string, n *yaml.Node, v reflect.Value) {
	fields := make(map[string]reflect.Value)
	var names []string
	for f, field := range v.Fields() {
		name := f.Tag.Get("yaml")
		fields[name] = field
		names = append(names, name)
	}
	p.eachPair(key, n, func(name, at string, line int, value *yaml.Node) {
		field, ok := fields[name]
		if !ok {
			remedy := "valid here: " + strings.Join(names, ", ")
			if n := findNearest(name, names); n != "" {
				remedy = fmt.Sprintf("did you mean %s?", quote(joinKey(key, n)))
			}
			p.addError(line, at, "unknown key "+quote(at), remedy)
			return
		}
		p.decodeValue(at, value, field)
	})
}

// decodeMap decodes a mapping whose keys people choose.
func (p *parser) decodeMap(key string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	p.eachPair(key, n, func(name, at string, _ int, value *yaml.Node) {
		item := reflect.New(v.Type().Elem()).Elem()
		p.decodeValue(at, value, item)
		v.SetMapIndex(reflect.ValueOf(name), item)
	})
}

// eachPair calls each for every key of n that is text and comes first.
func (p *parser) eachPair(key string, n *yaml.Node, each func(name, at string, line int, value *yaml.Node)) {
	seen := make(map[string]int)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			p.addError(k.Line, key, "a key that is no plain text", "write the key out, in quotes if it is unusual")
			continue
		}
		at := joinKey(key, k.Value)
		if first, ok := seen[k.Value]; ok {
			p.addError(k.Line, at, fmt.Sprintf("%s is set again, after line %d", quote(at), first), "remove one of them")
			continue
		}
		seen[k.Value], p.lines[at] = k.Line, k.Line
		each(k.Value, at, k.Line, n.Content[i+1])
	}
}

// isDuration tells times; they are the settings that are int64.
func isDuration(n *yaml.Node) bool {
	if !isScalar(n, "!!str") {
		return false
	}
	_, err := time.ParseDuration(n.Value)
	return err == nil
}

func isScalar(n *yaml.Node, tags ...string) bool {
	if n.Kind != yaml.ScalarNode {
		return false
	}
	for _, tag := range tags {
		if n.ShortTag() == tag {
			return true
		}
	}
	return false
}

// describeNode says what n is, for an error.
func describeNode(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "settings"
	case yaml.SequenceNode:
		return "a list"
	}
	return quote(n.Value)
}

// joinKey appends a name to the key that it stands under.
func joinKey(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// quote shows text of the file, cut where it is long.
func quote(s string) string {
	if len(s) > 100 {
		s = s[:100] + "…"
	}
	return fmt.Sprintf("%q", s)
}
