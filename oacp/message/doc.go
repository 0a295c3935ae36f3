// Package message reads, checks and writes OACP messages: the YAML files that
// agents leave in each other's inboxes.
//
// ParseDocument takes any file and returns a Document, or one line that says why not. Validate
// judges a Document in the lines of the reference tool (oacp-cli 0.4.0), in its words and
// order. ValidateBody adds what the specification asks beyond that. Message has names for
// the fields: programs read, compose, order (CompareUrgency) and render it. ParseCarriableMessage
// is the light check of the carrier: it passes what it does not understand, but no message
// in which a reader could find another sender.
//
// Render writes the bytes that the reference would write, unless those would not be read
// back as the text that was meant: such a value becomes a double-quoted line. So a rendered
// message reads the same for every OACP tool.
//
// VerifyMessage judges a signature over the bytes of a file against a receiver's pins. The package
// never rewrites bytes, and makes no keys.
//
// What the reference accepts and says is recorded in integration/vectors/oacp; the few
// vectors with a "why" are the known differences.
//
// The package uses no file, clock or network, only the random source from which names are
// drawn.
package message
