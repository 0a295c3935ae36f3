package main

import (
	"fmt"
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
	// roles are the processes of this binary that start uses.
	roles map[string]role
}

func variantNamed(name string) (variant, error) {
	for _, v := range variants {
		if v.name == name {
			return v, nil
		}
	}
	return variant{}, fmt.Errorf("unknown variant %q: choose from %s", name, variantNames())
}

func variantNames() string {
	var names []string
	for _, v := range variants {
		names = append(names, v.name)
	}
	return strings.Join(names, ",")
}
