package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	mixedCaps = regexp.MustCompile(`\b[a-z]+[a-z0-9]*[A-Z][A-Za-z0-9]*\b`)
	firstWord = regexp.MustCompile(`^(?:[a-z]|[A-Z]+[a-z0-9]+[A-Z])[A-Za-z0-9_]*`)
	docLink   = regexp.MustCompile(`(?:^|[\s(])\[\*?((?:[a-z]+\.)?[A-Z]\w*(?:\.\w+)?)\]`)
)

// TestCommentsNameWhatExists: a comment names nothing of the code that is gone. A doc comment that begins with a
// Go name begins with that of what it documents. A name in a comment, or in a doc link, is used in the package that
// the comment means.
func TestCommentsNameWhatExists(t *testing.T) {
	positions := token.NewFileSet()
	files := make(map[string][]*ast.File)       // by folder
	used := make(map[string]map[string]bool)    // identifiers of a folder
	folders := make(map[string]map[string]bool) // of a package's name
	inText := make(map[string]bool)             // names in strings, such as those of fields of other programs
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && slices.Contains([]string{".git", "testdata"}, e.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		file, err := parser.ParseFile(positions, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if files[folder] == nil {
			used[folder] = make(map[string]bool)
		}
		files[folder] = append(files[folder], file)
		if folders[file.Name.Name] == nil {
			folders[file.Name.Name] = make(map[string]bool)
		}
		folders[file.Name.Name][folder] = true
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				used[folder][n.Name] = true
			case *ast.BasicLit:
				for _, name := range mixedCaps.FindAllString(n.Value, -1) {
					inText[name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	isUsed := func(folder, link string) bool {
		in := []string{folder}
		parts := strings.Split(link, ".")
		if name := parts[0]; name == strings.ToLower(name) {
			in = in[:0]
			for of := range folders[name] {
				in = append(in, of)
			}
			if parts = parts[1:]; len(in) == 0 {
				return true // not of this module
			}
		}
		return slices.ContainsFunc(in, func(folder string) bool {
			return !slices.ContainsFunc(parts, func(part string) bool { return !used[folder][part] })
		})
	}
	checkDoc := func(doc *ast.CommentGroup, names ...string) {
		if first := firstWord.FindString(doc.Text()); first != "" && !slices.Contains(names, first) {
			t.Errorf("%s: the comment on %s is about %s", positions.Position(doc.Pos()), strings.Join(names, ", "), first)
		}
	}
	for folder, list := range files {
		for _, file := range list {
			for _, comment := range file.Comments {
				for _, name := range mixedCaps.FindAllString(comment.Text(), -1) {
					if !used[folder][name] && !inText[name] {
						t.Errorf("%s: a comment names %s, which the package does not use", positions.Position(comment.Pos()), name)
					}
				}
				for _, link := range docLink.FindAllStringSubmatch(comment.Text(), -1) {
					if link[1] != strings.ToUpper(link[1]) && !isUsed(folder, link[1]) {
						t.Errorf("%s: [%s] leads nowhere", positions.Position(comment.Pos()), link[1])
					}
				}
			}
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					if !strings.HasPrefix(d.Name.Name, "Test") {
						checkDoc(d.Doc, d.Name.Name)
					}
				case *ast.GenDecl:
					checkDoc(d.Doc, declaredBy(d)...)
				}
			}
		}
	}
}

// declaredBy returns the names of the types, constants or variables that a declaration has.
func declaredBy(d *ast.GenDecl) (names []string) {
	for _, s := range d.Specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			names = append(names, s.Name.Name)
		case *ast.ValueSpec:
			for _, n := range s.Names {
				names = append(names, n.Name)
			}
		}
	}
	return names
}
