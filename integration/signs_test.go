package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSigns holds the signs in docs/architecture.md to the code: each file that they
// name exists, and declares what they say that it does.
func TestSigns(t *testing.T) {
	text, err := os.ReadFile("../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	signs := ""
	for _, part := range between.FindAllStringSubmatch(string(text), -1) {
		signs += part[1]
	}
	files := 0
	for line := range strings.Lines(signs) {
		var declared map[string]bool
		for _, word := range code.FindAllStringSubmatch(line, -1) {
			if strings.Contains(word[1], "/") {
				files++
				if declared, err = declarations("../" + word[1]); err != nil {
					t.Errorf("the signs of docs/architecture.md: %v", err)
					break
				}
				continue
			}
			if declared == nil {
				t.Errorf("the signs of docs/architecture.md: %q stands before any file in %q", word[1], line)
				break
			}
			if !declared[word[1]] {
				t.Errorf("the signs of docs/architecture.md: no %s is declared where %q says", word[1], line)
			}
		}
	}
	if files < 150 {
		t.Errorf("the signs of docs/architecture.md name %d files, want 150 or more", files)
	}
	for _, what := range []string{"a verb of acpctl", "a setting of the daemon", "a kind of message", "a bridge", "a service"} {
		if !strings.Contains(signs, "\n### … "+what+"\n") {
			t.Errorf("the signs of docs/architecture.md do not say how to add %s", what)
		}
	}
}

var (
	code    = regexp.MustCompile("`([^`]+)`")
	between = regexp.MustCompile(`(?s)<!-- signs:begin -->\n(.*?)<!-- signs:end -->`)
)

// declarations returns the names that a Go file declares at its top level: those of
// methods as Type.method, and those of fields as Type.field. Of a folder or of another
// file it returns none.
func declarations(path string) (map[string]bool, error) {
	names := make(map[string]bool)
	if filepath.Ext(path) != ".go" {
		_, err := os.Stat(path)
		return names, err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			names[methodName(d)] = true
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					names[s.Name.Name] = true
					fields, _ := s.Type.(*ast.StructType)
					for i := 0; fields != nil && i < len(fields.Fields.List); i++ {
						for _, n := range fields.Fields.List[i].Names {
							names[s.Name.Name+"."+n.Name] = true
						}
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						names[n.Name] = true
					}
				}
			}
		}
	}
	return names, nil
}

func methodName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver := f.Recv.List[0].Type
	if p, ok := receiver.(*ast.StarExpr); ok {
		receiver = p.X
	}
	if p, ok := receiver.(*ast.IndexExpr); ok {
		receiver = p.X
	}
	if id, ok := receiver.(*ast.Ident); ok {
		return id.Name + "." + f.Name.Name
	}
	return f.Name.Name
}
