//go:build !race

package run

// helperEnv is the environment of helpers.
var helperEnv = []string{}
