// Package message reads, checks and writes OACP messages: the YAML files that agents leave
// in each other's inboxes.
//
// ParseDocument reads any file. Validate finds its faults: a message is valid if it is for
// release 0.4.0 of the reference tool, oacp-cli. Message has names for the fields, orders
// messages (CompareUrgency) and renders them. ParseCarriableMessage is the check of the
// carrier: it passes what it does not understand, but no message in which a reader could
// find another sender.
//
// Render writes the bytes that the reference would write, unless they would be read back as
// another text: such a value becomes a double-quoted line. So every OACP tool reads the same
// message.
//
// The verdicts of the reference are recorded in integration/vectors/oacp; the vectors with a
// "why" are the known differences.
//
// The package uses no file, clock or network, only the random source from which names are
// drawn.
package message
