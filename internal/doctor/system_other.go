//go:build !linux

package doctor

// maxSocketPath is the size of sockaddr_un's path without its zero (unix(4)).
const maxSocketPath = 103

// isClockSynced knows nothing: x/sys has no ntp_adjtime.
func isClockSynced() (synced, known bool) { return false, false }
