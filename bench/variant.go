package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// A variant is one way for a request to travel.
type variant struct {
	name string
	// start starts the processes, the one that drives the load last. On an error
	// the caller stops what was started.
	start func(*fleet) error
	// programs are the commands of the main module that start uses, to be built first.
	programs []string
	// source is the checkout whose programs are built; "": this one.
	source string
	// roles are the processes of this binary that start uses.
	roles map[string]role
}

// newBeforeVariant is the variant of the daemons of another checkout. The agents are of this one.
func newBeforeVariant(source string) variant {
	v := acpdVariant
	v.name, v.source = "before", source
	return v
}

// binDir returns where the variant's programs lie below bin. Those of another checkout
// have the same names, and a folder of their own.
func (v variant) binDir(bin string) string {
	if v.source == "" {
		return bin
	}
	return filepath.Join(bin, v.name)
}

func findVariant(name string) (variant, error) {
	if i := slices.IndexFunc(variants, func(v variant) bool { return v.name == name }); i >= 0 {
		return variants[i], nil
	}
	return variant{}, fmt.Errorf("unknown variant %q: choose from %s", name, listVariants())
}

func listVariants() string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return strings.Join(names, ",")
}
