package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mappers may put the text of an error into another one. Each maps those of one source to words of this
// program.
var mappers = map[string]string{}

// An error of this program never has the text of another one as a string: Errorf of kinds and ownwords look
// for the words that may be shown only in arguments that are errors.
// holds: security.md#errors-have-words-of-this-program
func TestErrorsTakeNoTextOfErrors(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{range .GoFiles}}{{$.Dir}}/{{.}}{{"\n"}}{{end}}`, module+"...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	files := token.NewFileSet()
	for path := range strings.Lines(string(out)) {
		path = strings.TrimSpace(path)
		name, _ := filepath.Rel(root, path)
		if strings.HasPrefix(name, "integration/") {
			continue
		}
		parsed, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			for _, at := range findErrorTexts(f) {
				if where := name + ": " + f.Name.Name; mappers[where] != "" {
					used[where] = true
				} else {
					t.Errorf("%s: %s: pass the error, and not its text", files.Position(at), f.Name.Name)
				}
			}
		}
	}
	for where := range mappers {
		if !used[where] {
			t.Errorf("%s passes no text of an error", where)
		}
	}
}

// findErrorTexts returns where a function has a call of Error() in the arguments of what makes an error.
func findErrorTexts(f *ast.FuncDecl) (all []token.Pos) {
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || !isCallOf(call, "kinds.Errorf", "ownwords.Errorf", "ownwords.New", "ownwords.Explain", "newUnreachableError") {
			return true
		}
		for _, arg := range call.Args {
			ast.Inspect(arg, func(n ast.Node) bool {
				if inner, ok := n.(*ast.CallExpr); ok && len(inner.Args) == 0 {
					if s, ok := inner.Fun.(*ast.SelectorExpr); ok && s.Sel.Name == "Error" {
						all = append(all, inner.Pos())
					}
				}
				return true
			})
		}
		return true
	})
	return all
}

func isCallOf(call *ast.CallExpr, names ...string) bool {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		return ok && slices.Contains(names, x.Name+"."+f.Sel.Name) || slices.Contains(names, f.Sel.Name)
	case *ast.Ident:
		return slices.Contains(names, f.Name)
	}
	return false
}

func TestErrorTextsAreFound(t *testing.T) {
	const source = `package p
func f() {
	_ = kinds.Errorf(kinds.Internal, "x: %s", err.Error())
	_ = ownwords.Errorf("x: %s", strings.TrimPrefix(err.Error(), "y"))
	_ = kinds.Errorf(kinds.Internal, "x: %v", err)
	_ = errors.New(err.Error())
}`
	parsed, err := parser.ParseFile(token.NewFileSet(), "f.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	if all := findErrorTexts(parsed.Decls[0].(*ast.FuncDecl)); len(all) != 2 {
		t.Errorf("%d texts are found, want 2", len(all))
	}
}
