package yamldoc

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TextSetter is a type whose values may also be written as text.
type TextSetter interface {
	SetText(text string)
}

// decodeValue decodes n, found under key, into v. The type of v decides what is
// allowed.
func (d *Document) decodeValue(key string, n *yaml.Node, v reflect.Value) {
	where := Quote(key)
	if key == "" {
		where = "the file"
	}
	want, example, ok := d.describeType(key, n, v)
	short, isShort := v.Addr().Interface().(TextSetter)
	if isShort {
		want = "text or " + want
	}
	switch {
	case n.Kind == yaml.AliasNode || n.Anchor != "":
		d.addError(n.Line, key, where+" uses an anchor or alias", "write the value out")
	case isScalarNode(n, "!!null"):
		d.addError(n.Line, key, where+" has no value", "give it one or remove the line")
	case isShort && d.isText(n):
		short.SetText(n.Value)
	case !ok:
		d.addError(n.Line, key, fmt.Sprintf("%s must be %s, not %s", where, want, describeYAMLNode(n)), example)
	case v.Kind() == reflect.Struct:
		d.decodeObject(key, n, v)
	case v.Kind() == reflect.Map:
		d.decodeMap(key, n, v)
	case v.Kind() == reflect.Slice:
		d.decodeList(key, n, v)
	case v.Kind() == reflect.String:
		v.SetString(n.Value)
	case isScalarNode(n, "!!int", "!!float") && hasTwoMeanings(n.Value):
		d.addError(n.Line, key, fmt.Sprintf("%s is %s, which is another number to some readers of YAML", where, Quote(n.Value)), "write decimal digits without a 0 in front")
	default:
		if err := n.Decode(v.Addr().Interface()); err != nil {
			d.addError(n.Line, key, fmt.Sprintf("%s cannot be %s", where, describeYAMLNode(n)), "use another number")
		}
	}
}

// describeType returns what v takes, how that is written, and whether n is that.
func (d *Document) describeType(key string, n *yaml.Node, v reflect.Value) (want, example string, ok bool) {
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		return "settings", "put each on a line of its own, as key: value", n.Kind == yaml.MappingNode
	case reflect.Slice:
		return "a list", "write [a, b], or one item a line after -", n.Kind == yaml.SequenceNode
	case reflect.String:
		// For a type with words of its own any scalar will do here: who checks the value
		// names the words, and quotes would help nobody.
		word := v.Type() != reflect.TypeFor[string]()
		return "text", cmp.Or(d.options.Examples[key], "put it in quotes"), d.isText(n) || word && n.Kind == yaml.ScalarNode
	case reflect.Bool:
		return "true or false", "write one of them, without quotes", isScalarNode(n, "!!bool")
	case reflect.Int, reflect.Int64:
		return "a whole number", "write digits only", isScalarNode(n, "!!int")
	case reflect.Uint64:
		return "a whole number from 0", "write digits only", isScalarNode(n, "!!int") && !strings.HasPrefix(n.Value, "-")
	case reflect.Float64:
		return "a number", "write it like 10 or 0.5", isScalarNode(n, "!!int", "!!float")
	}
	panic("yamldoc: no document has a " + v.Type().String())
}

// decodeList decodes a sequence.
func (d *Document) decodeList(key string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		d.lines[at] = item.Line
		d.decodeValue(at, item, v.Index(i))
	}
}

// Inline is the tag of a map in a struct that takes the keys which no other field has.
const Inline = ",inline"

// decodeObject decodes a mapping whose keys are the fields of v.
func (d *Document) decodeObject(key string, n *yaml.Node, v reflect.Value) {
	fields := make(map[string]reflect.Value)
	var names []string
	var others reflect.Value // the inline map, if there is one
	for f, field := range v.Fields() {
		name := f.Tag.Get("yaml")
		if name == Inline {
			others = field
			continue
		}
		if name == "-" {
			continue
		}
		fields[name] = field
		names = append(names, name)
	}
	d.forEachPair(key, n, func(name, at string, line int, value *yaml.Node) {
		field, ok := fields[name]
		if remedy := d.findGone(at); remedy != "" && (!ok || value.Kind == yaml.MappingNode) {
			delete(d.lines, at)
			d.gone[at] = value
			d.skipped = append(d.skipped, &Error{d.options.File, line, at, Quote(at) + " is as an earlier version had it: it is skipped now, and the next minor version will refuse it", remedy})
			return
		}
		if !ok && others.IsValid() {
			if others.IsNil() {
				others.Set(reflect.MakeMap(others.Type()))
			}
			d.decodeMapItem(at, name, value, others)
			return
		}
		if !ok {
			remedy := "valid here: " + strings.Join(names, ", ")
			if n := FindNearestWord(name, names); n != "" {
				remedy = fmt.Sprintf("did you mean %s?", Quote(JoinKey(key, n)))
			}
			d.addError(line, at, "unknown key "+Quote(at), remedy)
			return
		}
		d.decodeValue(at, value, field)
	})
}

// findGone returns what to write instead of a setting of an earlier version, or "" for any other key.
func (d *Document) findGone(key string) string {
	for pattern, remedy := range d.options.Gone {
		if matches, _ := path.Match(pattern, key); matches {
			return remedy
		}
	}
	return ""
}

// decodeMap decodes a mapping whose keys people choose.
func (d *Document) decodeMap(key string, n *yaml.Node, v reflect.Value) {
	v.Set(reflect.MakeMap(v.Type()))
	d.forEachPair(key, n, func(name, at string, _ int, value *yaml.Node) { d.decodeMapItem(at, name, value, v) })
}

// decodeMapItem decodes the value of one key of the map v.
func (d *Document) decodeMapItem(at, name string, n *yaml.Node, v reflect.Value) {
	item := reflect.New(v.Type().Elem()).Elem()
	d.decodeValue(at, n, item)
	v.SetMapIndex(reflect.ValueOf(name), item)
}

// forEachPair calls each for every key of n that is text and comes first.
func (d *Document) forEachPair(key string, n *yaml.Node, each func(name, at string, line int, value *yaml.Node)) {
	seen := make(map[string]int)
	for i := 0; i < len(n.Content); i += 2 {
		k := n.Content[i]
		if k.Kind != yaml.ScalarNode || k.Anchor != "" {
			d.addError(k.Line, key, "a key that is no plain text", "write the key out, in quotes if it is unusual")
			continue
		}
		at := JoinKey(key, k.Value)
		if first, ok := seen[k.Value]; ok {
			d.addError(k.Line, at, fmt.Sprintf("%s is set again, after line %d", Quote(at), first), "remove one of them")
			continue
		}
		seen[k.Value], d.lines[at] = k.Line, k.Line
		each(k.Value, at, k.Line, n.Content[i+1])
	}
}

// hasTwoMeanings reports whether a number is another number, or text, in another version of YAML: 010 is 8 or 10,
// and 1_000 a number or text.
func hasTwoMeanings(number string) bool {
	digits := strings.TrimLeft(number, "+-")
	return len(digits) > 1 && digits[0] == '0' && !strings.ContainsRune(".eE", rune(digits[1])) || strings.Contains(digits, "_")
}

// isText reports whether n is text.
func (d *Document) isText(n *yaml.Node) bool {
	return isScalarNode(n, "!!str") || d.options.LooseText && n.Kind == yaml.ScalarNode
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
	return Quote(n.Value)
}
