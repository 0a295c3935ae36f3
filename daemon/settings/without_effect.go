package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/acpd/acpd/identity"
)

// MaxNamesInWarning bounds the names in a warning, or in an error.
const MaxNamesInWarning = 8

// ListWithoutEffect returns warnings about settings from which nothing follows: those that
// are gone, and those that name peers which nobody trusts.
func (s *Service) ListWithoutEffect() []string {
	known := make(map[string]bool)
	for _, p := range s.Trust.Peers() {
		known[p.Name], known[p.ID.String()] = true, true
	}
	fleet, cfg := s.Trust.HasAuthorities(), s.Load()
	unmatched := cfg.FindPeerRefs(func(ref string) bool {
		if fleet { // a key may show a certificate at any time
			if id, err := identity.ParseID(ref); err == nil && !s.Trust.IsBlocked(id) {
				return false
			}
		}
		return !known[ref]
	})
	all := append([]string{}, cfg.Skipped...)
	for _, setting := range slices.Sorted(maps.Keys(unmatched)) {
		var peers, certified []string
		for _, ref := range slices.Compact(slices.Sorted(slices.Values(unmatched[setting]))) {
			if strings.Contains(ref, ".") {
				certified = append(certified, ref)
			} else {
				peers = append(peers, ref)
			}
		}
		all = appendUnmatched(all, setting, peers, "no trusted peer has that name or id, so nothing follows from it; acpctl peers lists those that are")
		all = appendUnmatched(all, setting, certified, "organisation has no authority of the name behind the dot, so nothing follows from it; acpctl cert show lists those that it has")
	}
	return all
}

// appendUnmatched appends a warning to all, if there are refs.
func appendUnmatched(all []string, setting string, refs []string, why string) []string {
	if len(refs) == 0 {
		return all
	}
	more := ""
	if len(refs) > MaxNamesInWarning {
		more = fmt.Sprintf(" and %d more", len(refs)-MaxNamesInWarning)
		refs = refs[:MaxNamesInWarning]
	}
	return append(all, fmt.Sprintf("%s in config.yaml names %s%s: %s", setting, strings.Join(refs, ", "), more, why))
}

// LogWithoutEffect logs the warnings about settings without effect.
func (s *Service) LogWithoutEffect() {
	for _, doubt := range s.ListWithoutEffect() {
		s.Log.Warn("settings without effect", "warning", doubt)
	}
}
