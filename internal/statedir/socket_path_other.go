//go:build !linux

package statedir

// MaxSocketPath is the size of sockaddr_un's path without its zero (unix(4)).
const MaxSocketPath = 103
