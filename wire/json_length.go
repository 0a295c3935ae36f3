package wire

// MaxJSONLength returns how many bytes s can take in a JSON string: \u0000 for each of its own.
func MaxJSONLength(s string) int { return len(`\u0000`) * len(s) }
