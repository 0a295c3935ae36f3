package yamldoc

import "github.com/acpd/acpd/internal/ownwords"

// FindNearestWord returns the one of words that was most likely meant, or "" if no word is near or several are equally
// near. A slip of the hand is about one edit of three characters at most.
func FindNearestWord(word string, words []string) string {
	best, bound := "", max((len(word)+1)/3, 1)+1
	if len(word) > 64 {
		return ""
	}
	for _, w := range words {
		switch d := ownwords.CountEdits(word, w); {
		case d < bound:
			best, bound = w, d
		case d == bound:
			best = "" // one is as good as the other
		}
	}
	return best
}
