package localapi

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

//go:generate go test -run TestFilesAreCurrent -count=1 . -update

var update = flag.Bool("update", false, "write the files that are made")

const root = "../.."

// The description is that of the Go types, and what is made of it is made of this one.
func TestFilesAreCurrent(t *testing.T) {
	doc, err := Describe(root)
	if err != nil {
		t.Fatal(err)
	}
	text, err := doc.encode()
	if err != nil {
		t.Fatal(err)
	}
	keep(t, "docs/local-api.json", string(text))
	written, err := os.ReadFile(filepath.Join(root, "docs/local-api.json"))
	if err != nil {
		t.Fatal(err)
	}
	if doc, err = parseDocument(written); err != nil {
		t.Fatal(err)
	}
	keep(t, "python/acpd/acpd/types.py", WritePythonTypes(doc))
	keep(t, "python/acpd/acpd/_codes.py", WritePythonErrors(doc))
	keep(t, "examples/node/local-api.d.ts", WriteTypeScript(doc))
}

// keep compares a file with what it should hold, or with -update writes it.
func keep(t *testing.T, path, text string) {
	t.Helper()
	whole := filepath.Join(root, path)
	if old, err := os.ReadFile(whole); err == nil && string(old) == text {
		return
	}
	if !*update {
		t.Errorf("%s is not what the Go types say: run go generate ./integration/localapi", path)
		return
	}
	if err := os.MkdirAll(filepath.Dir(whole), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(whole, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// The table of methods is that of the daemon: the same methods, callers and params.
func TestEveryMethodIsDescribed(t *testing.T) {
	daemon := readDaemonMethods(t)
	for _, c := range daemonCalls {
		served, ok := daemon[c.name]
		if !ok {
			t.Errorf("%s is described, and the daemon does not serve it", c.name)
			continue
		}
		delete(daemon, c.name)
		if served.callers != c.callers {
			t.Errorf("%s: callers %s, and by the daemon's table %s", c.name, c.callers, served.callers)
		}
		params := ""
		if c.params != nil {
			params = c.params.goType.String()
		}
		if served.params != params && served.params != "?" {
			t.Errorf("%s: params %q, and the daemon reads %q", c.name, params, served.params)
		}
	}
	for name := range daemon {
		t.Errorf("%s is served, and not described: add it to methods.go", name)
	}
}

// served is a row of the daemon's table of methods.
type served struct {
	callers callers
	params  string // ?: what serves it reads them itself
}

// readDaemonMethods returns the table that packages below daemon have for [local.Server].
func readDaemonMethods(t *testing.T) map[string]served {
	t.Helper()
	params := make(map[string]string) // of the functions that serve methods, by package and name
	names := make(map[string]string)  // of methods, by the names of their constants
	aliases := make(map[string]string)
	sameType := make(map[string]string)
	rows := make(map[string]served) // by the names of their constants; params is the name of the function
	for _, folder := range []string{"daemon", "daemon/*", "client", "kinds"} {
		files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			pkg := filepath.Base(filepath.Dir(name))
			for _, decl := range file.Decls {
				switch decl := decl.(type) {
				case *ast.FuncDecl:
					if all := decl.Type.Params.List; decl.Recv != nil && len(all) == 3 {
						params[pkg+"."+decl.Name.Name] = strings.TrimPrefix(types.ExprString(all[2].Type), "*")
					}
				case *ast.GenDecl:
					for _, spec := range decl.Specs {
						if alias, ok := spec.(*ast.TypeSpec); ok && alias.Assign.IsValid() {
							sameType[pkg+"."+alias.Name.Name] = pkg + "." + types.ExprString(alias.Type)
						}
						value, ok := spec.(*ast.ValueSpec)
						if !ok || len(value.Values) != 1 {
							continue
						}
						switch v := value.Values[0].(type) {
						case *ast.BasicLit:
							names[value.Names[0].Name], _ = strconv.Unquote(v.Value)
						case *ast.SelectorExpr:
							aliases[value.Names[0].Name] = v.Sel.Name
						}
					}
				}
			}
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			ast.Inspect(file, func(n ast.Node) bool {
				row, ok := n.(*ast.KeyValueExpr)
				if !ok {
					return true
				}
				value := types.ExprString(row.Value)
				if lit, ok := row.Value.(*ast.CompositeLit); ok && lit.Type == nil { // types.ExprString leaves out what is in it
					value = ""
					for _, e := range lit.Elts {
						value += types.ExprString(e.(*ast.KeyValueExpr).Key) + " "
					}
				}
				key, isMethod := strings.CutPrefix(types.ExprString(row.Key), "client.Method")
				switch serve := servedBy.FindStringSubmatch(value); {
				case !isMethod:
					return true
				case serve != nil && serve[1] == "Owner":
					rows["Method"+key] = served{owner, pkg + "." + serve[2]}
				case serve != nil:
					rows["Method"+key] = served{agents, pkg + "." + serve[2]}
				case strings.Contains(value, "ForGuests"):
					rows["Method"+key] = served{agents, ""}
				case strings.Contains(value, "Serve"):
					rows["Method"+key] = served{owner, ""}
				}
				return true
			})
		}
	}
	all := make(map[string]served)
	for key, row := range rows {
		one := served{row.callers, "?"}
		if row.params != "" {
			one.params = strings.TrimPrefix(params[row.params], "local.NoParams")
			one.params = cmp.Or(sameType[one.params], one.params)
		}
		all[cmp.Or(names[key], names[aliases[key]])] = one
	}
	return all
}

// servedBy matches a row of a table of methods whose params are read for the function that it names.
var servedBy = regexp.MustCompile(`local\.For(Owner|Agents)\(\w+\.(\w+)\)`)
