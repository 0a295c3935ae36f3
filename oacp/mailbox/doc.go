// Package mailbox reads and writes OACP mailboxes: the folders inbox/, outbox/ and
// inbox/archive/ of each agent below a home, as plain files that every OACP tool shares. No
// daemon is needed.
//
// A file that it writes is on the disk when the call returns. Readers see it whole or not at
// all. It never replaces a message: if a name is taken, it draws another or adds a number. A
// process that dies leaves no part of a message under a message's name.
//
// It reads regular files of bounded size, and follows no links below a project. A file that
// goes away meanwhile is treated as one that was never there. No file in a mailbox blocks it.
// Reading changes nothing; Agent.FinishMessage takes a message out of an inbox. Mailboxes have
// no locks: the file system decides which process was first.
//
// Listings, watch events and cursors have the form of the reference tool (oacp-cli 0.4.0), so
// that both can be used on the same folders.
//
// Package message knows what a message is and whether it is valid. The daemon carries mail
// between machines.
package mailbox
