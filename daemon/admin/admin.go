// Package admin is what the person who runs a daemon needs of it: how full its disks are, a copy of its
// state, what peers cost it.
//
// It leaves to others what a daemon does for its peers and agents.
package admin
