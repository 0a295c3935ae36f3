// Package admin serves the person who runs a daemon: whether it is ready, how it ends, how full its disks are, a
// copy of its state, what peers cost it, the notifications to systemd, and the servers of metrics and of profiles.
//
// It leaves to others what a daemon does for its peers and agents.
package admin
