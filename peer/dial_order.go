package peer

import "slices"

// listDialAddrs returns the peer's addresses in the order in which they are dialled: first
// the one where the peer last proved its key, then those of [Config.Addrs].
func (state *peerState) listDialAddrs() []string {
	known := state.node.cfg.Addrs(state.id)
	state.mu.Lock()
	good := state.lastGoodAddr
	state.mu.Unlock()
	if good == "" {
		return known
	}
	return append([]string{good}, slices.DeleteFunc(slices.Clone(known), func(a string) bool { return a == good })...)
}
