//go:build race

package run

// helperEnv is the environment of helpers. It keeps the race detector from waiting for a second
// at the end of each.
var helperEnv = []string{"GORACE=atexit_sleep_ms=0"}
