// Package chain proves the log of an intent: with the canonical form of JSON (RFC 8785),
// the hash chain of events (RFC-0019), the proofs of messages (RFC-0018), and the form of times,
// which hashes and signatures cover.
//
// # Guarantees
//
// Its functions are pure: they read no clock, keep nothing and do no I/O. The same event has
// the same hash on every machine, however its payload was written.
//
// # What it leaves to others
//
// Package openintent keeps the events, and knows who may read them and which agent has
// registered which key.
package chain
