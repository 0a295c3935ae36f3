package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// slices.SortFunc and those like it are compiled once for all pointers, and for each other type
// anew, which makes acpd 10 to 25 KB larger. What is in acpd sorts other things with sort.Slice.
func TestSortsAreShared(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", `{{$dir := .Dir}}{{with .Module}}{{if .Main}}{{range $.GoFiles}}{{$dir}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, module+"cmd/acpd").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := 0
	for path := range strings.FieldsSeq(string(out)) {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, filepath.FromSlash(path), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if f, ok := call.Fun.(*ast.SelectorExpr); !ok || !isOf(f.X, "slices") || !strings.HasPrefix(f.Sel.Name, "Sort") || !strings.HasSuffix(f.Sel.Name, "Func") {
				return true
			}
			seen++
			if !comparesPointers(call.Args[1]) {
				t.Errorf("%s: compiled for this type alone: use sort.Slice, or sort pointers", files.Position(n.Pos()))
			}
			return true
		})
	}
	if seen == 0 {
		t.Error("acpd sorts no pointers: is this still looking at it?")
	}
}

// isOf reports whether an expression is the name of a package.
func isOf(e ast.Expr, pkg string) bool {
	name, ok := e.(*ast.Ident)
	return ok && name.Name == pkg
}

// comparesPointers reports whether a comparison is a function of pointers or a method of one, written as such.
func comparesPointers(compare ast.Expr) bool {
	of := compare
	switch c := compare.(type) {
	case *ast.FuncLit:
		of = c.Type.Params.List[0].Type
	case *ast.SelectorExpr:
		of = ast.Unparen(c.X)
	}
	_, ok := of.(*ast.StarExpr)
	return ok
}
