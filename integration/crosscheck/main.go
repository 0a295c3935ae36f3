// Crosscheck type-checks the packages of this module with their tests, and all that they import, for other
// systems than this one. It compiles nothing, so it takes a fraction of the time of go vet.
//
//	go run ./integration/crosscheck darwin/arm64 linux/386
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	code := 0
	for _, system := range os.Args[1:] {
		errs, err := checkTypes(system)
		if err != nil {
			errs = []string{err.Error()}
		}
		for _, e := range errs {
			fmt.Fprintf(os.Stderr, "crosscheck: %s: %s\n", system, e)
			code = 1
		}
	}
	os.Exit(code)
}

// checkTypes returns what is wrong on a system, GOOS/GOARCH. err says why it could not look.
func checkTypes(system string) (errs []string, err error) {
	goos, goarch, _ := strings.Cut(system, "/")
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes, // from source
		Env:        append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		BuildFlags: []string{"-pgo=off"}, // else all that acpd imports is read twice
		Tests:      true,
	}, "./...")
	told := make(map[string]bool) // a package is loaded without its tests and with them
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if text := e.Error(); !told[text] {
				told[text] = true
				errs = append(errs, text)
			}
		}
	})
	return errs, err
}
