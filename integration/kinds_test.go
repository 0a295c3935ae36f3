package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/acpd/acpd/kinds"
)

// fewKinds is how many kinds a file may name without being taken for a list of them.
const fewKinds = 2

// namesKinds has the files that may name more, and why.
var namesKinds = map[string]string{
	"client/api.go":                   "the methods of the client",
	"client/client.go":                "calls them",
	"client/attach.go":                "calls the functions of an agent",
	"daemon/incoming/dispatch.go":     "the handlers",
	"daemon/outgoing/send.go":         "serves the methods of the client",
	"daemon/tasks/tasks.go":           "the methods of delegations",
	"internal/app/cli/talk/inbox.go":  "prints what it reads from the payload of each kind that waits in an inbox",
	"internal/app/cli/groups.go":      "verbs of acpctl",
	"internal/app/cli/frame/hints.go": "verbs of acpctl",
}

// TestKindsStandInTheTable: what a kind is stands in the table of package kinds. No other package lists
// kinds, by their constants or as words.
func TestKindsStandInTheTable(t *testing.T) {
	known := make(map[string]bool) // constants and words; a reply goes with its request
	for _, k := range kinds.ListKinds() {
		if k.Class != kinds.Reply {
			name := strings.ToUpper(k.Name[:1]) + k.Name[1:]
			known["Kind"+name], known["Method"+name], known[k.Name] = true, true, true
		}
	}
	listed := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		path = filepath.ToSlash(strings.TrimPrefix(path, "../"))
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{"kinds", "integration", "bench", "examples", ".git", "testdata"}, path):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), "../"+path, nil, 0)
		if err != nil {
			return err
		}
		constants, words := make(map[string]bool), make(map[string]bool)
		ast.Inspect(file, func(n ast.Node) bool {
			var list []ast.Expr
			switch n := n.(type) {
			case *ast.Ident:
				if known[n.Name] && ast.IsExported(n.Name) {
					constants[n.Name] = true
				}
			case *ast.CompositeLit:
				list = n.Elts
			case *ast.CaseClause:
				list = n.List
			}
			for _, item := range list {
				if lit, ok := item.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if word, _ := strconv.Unquote(lit.Value); known[word] {
						words[word] = true
					}
				}
			}
			return true
		})
		switch why, most := namesKinds[path], max(len(constants), len(words)); {
		case most <= fewKinds && why != "":
			t.Errorf("%s is no list of kinds any more: remove it from namesKinds", path)
		case most > fewKinds && why == "":
			t.Errorf("%s lists kinds, %s: give the table in kinds/kinds.go a trait, and ask for that", path, slices.Concat(slices.Sorted(maps.Keys(constants)), slices.Sorted(maps.Keys(words))))
		case why != "":
			listed++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if listed != len(namesKinds) {
		t.Errorf("%d of the %d files of namesKinds are there", listed, len(namesKinds))
	}
}
