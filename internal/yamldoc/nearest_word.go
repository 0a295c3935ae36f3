package yamldoc

// FindNearestWord returns the one of words that was most likely meant, or "" if no word is near or several are equally
// near. A slip of the hand is about one edit of three characters at most.
func FindNearestWord(word string, words []string) string {
	best, bound := "", max((len(word)+1)/3, 1)+1
	if len(word) > 64 {
		return ""
	}
	for _, w := range words {
		switch d := editDistance(word, w); {
		case d < bound:
			best, bound = w, d
		case d == bound:
			best = "" // one is as good as the other
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete, replace, or swap with their
// neighbour, to make b of a (optimal string alignment).
func editDistance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
