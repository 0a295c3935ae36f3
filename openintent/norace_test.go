//go:build !race

package openintent

const raceEnabled = false
