//go:build race

package daemon

const raceEnabled = true // nothing is as fast as it has to be
