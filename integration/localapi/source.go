package localapi

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// source is what the Go source says of types, which reflection does not: comments and constants.
type source struct {
	types  map[string]string            // comments of types, by package and name
	fields map[string]map[string]string // comments of fields, by that and name
	named  map[string]bool              // names of types
	keys   map[string]string            // names of fields in JSON, by their Go names
	consts map[string]string            // values of constants, by their names
	typed  map[string][]textConst       // text constants, by their type
}

// readSource reads the source of packages, which are folders below root.
func readSource(root string, packages ...string) (*source, error) {
	s := &source{
		make(map[string]string), make(map[string]map[string]string), make(map[string]bool),
		make(map[string]string), make(map[string]string), make(map[string][]textConst),
	}
	for _, pkg := range packages {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			return nil, err
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			for _, decl := range file.Decls {
				if d, ok := decl.(*ast.GenDecl); ok {
					s.readDecl(pkg, d)
				}
			}
		}
	}
	for name, value := range values {
		s.consts[name] = value
	}
	return s, nil
}

func (s *source) readDecl(pkg string, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = d.Doc
			}
			name := pkg + "." + spec.Name.Name
			s.types[name], s.named[spec.Name.Name] = doc.Text(), true
			if body, ok := spec.Type.(*ast.StructType); ok {
				s.readFields(name, body)
			}
		case *ast.ValueSpec:
			if d.Tok != token.CONST || len(spec.Values) != len(spec.Names) {
				continue
			}
			for i, name := range spec.Names {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if !ok {
					continue
				}
				value := literal.Value
				if literal.Kind == token.STRING {
					value, _ = strconv.Unquote(value)
				}
				if _, taken := s.consts[name.Name]; !taken && name.IsExported() {
					s.consts[name.Name] = value
				}
				if of, ok := spec.Type.(*ast.Ident); ok && literal.Kind == token.STRING {
					s.typed[of.Name] = append(s.typed[of.Name], textConst{name.Name, value})
				}
			}
		}
	}
}

func (s *source) readFields(name string, body *ast.StructType) {
	fields := make(map[string]string)
	s.fields[name] = fields
	for _, f := range body.Fields.List {
		if f.Tag == nil {
			continue
		}
		tag, _ := strconv.Unquote(f.Tag.Value)
		key, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		for _, n := range f.Names {
			fields[n.Name] = strings.TrimSpace(f.Doc.Text() + f.Comment.Text())
			if key != "" && key != "-" {
				s.keys[n.Name] = key
			}
		}
	}
}

// textConst is a constant of a text type.
type textConst struct{ name, value string }

// listConsts returns the values of a text type's constants, in their order.
func (s *source) listConsts(typeName string) (all []string) {
	for _, c := range s.typed[typeName] {
		all = append(all, c.value)
	}
	return all
}

// findConstName returns the name of the constant of a text type that has that value.
func (s *source) findConstName(typeName, value string) string {
	for _, c := range s.typed[typeName] {
		if c.value == value {
			return c.name
		}
	}
	return ""
}

// fullName returns the package and the name of a type, as in the maps.
func fullName(t reflect.Type) string { return path.Base(t.PkgPath()) + "." + t.Name() }

// describe returns the comment of a type, as it reads to who does not know Go.
func (s *source) describe(t reflect.Type) string {
	return s.translate(t, s.types[fullName(t)], "absent")
}

// describeField returns the comment of a field, as it reads to who does not know Go.
func (s *source) describeField(t reflect.Type, field string, mayLack bool) string {
	none := "null"
	if mayLack {
		none = "absent"
	}
	return s.translate(t, s.fields[fullName(t)][field], none)
}

var (
	links      = regexp.MustCompile(`\[([A-Za-z0-9_.]+)\]`)
	qualifiers = regexp.MustCompile(`\b(kinds|wire|client|identity|Task|OACPQueue|SessionState)\.([A-Z])`)
	words      = regexp.MustCompile(`[A-Za-z0-9_]+`)
	nils       = regexp.MustCompile(`\b(nil\b|zero:)`)
)

// translate replaces what is Go's in a comment: names of fields and constants, links, nil.
func (s *source) translate(t reflect.Type, text, none string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = links.ReplaceAllString(text, "$1")
	text = qualifiers.ReplaceAllString(text, "$2")
	text = nils.ReplaceAllStringFunc(text, func(old string) string {
		return none + strings.TrimLeft(old, "nilzero")
	})
	start := 0
	var out strings.Builder
	for _, at := range words.FindAllStringIndex(text, -1) {
		word := text[at[0]:at[1]]
		out.WriteString(text[start:at[0]])
		start = at[1]
		own := false
		if t.Kind() == reflect.Struct {
			_, own = t.FieldByName(word)
		}
		switch beginsSentence := at[0] > 1 && text[at[0]-2] == '.'; {
		case word == t.Name(), beginsSentence:
		case s.keys[word] != "" && (own || !s.named[word]):
			word = s.keys[word]
		case s.consts[word] != "" && !s.named[word]:
			word = s.consts[word]
		}
		out.WriteString(word)
	}
	out.WriteString(text[start:])
	return out.String()
}
