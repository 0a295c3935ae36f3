//go:build race

package integration

// raceEnabled: the commands are built with the race detector too.
const raceEnabled = true
