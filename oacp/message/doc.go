// Package message reads, checks and writes OACP messages: the YAML files that
// agents leave in each other's inboxes.
//
// Parse takes whatever a stranger put into a folder and yields a Document, or one
// line that says why not. A Document is judged with Validate, whose lines are
// those of the reference tool (oacp-cli 0.4.0), in its words and order; Strict
// adds what the specification asks beyond that. Message is the same with names
// for the fields: what a program reads, composes, orders (Compare) and renders.
// Carriable is the light check of the carrier, which must pass on what it does
// not understand, but nothing of which somebody could take another for the sender.
//
// Render writes the bytes that the reference would write, except where those would
// not be read back as the text that was meant: such a value becomes a double-quoted
// line. So whatever is rendered here reads the same for every OACP tool.
//
// Verify judges a signature over the bytes of a file against a receiver's pins.
// Bytes are never rewritten, and keys are not made here.
//
// What the reference accepts and says is recorded in integration/vectors/oacp; the few
// vectors with a "why" are the known differences.
//
// The package touches no file, clock or network but the random source that names
// are drawn from.
package message
