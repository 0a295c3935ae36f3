//go:build race

package openintent

const raceEnabled = true // everything takes ten times as long
