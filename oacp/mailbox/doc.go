// Package mailbox keeps OACP mailboxes: the folders inbox/, outbox/ and
// inbox/archive/ of each agent below a home, as plain files that every OACP tool
// shares. No daemon is needed.
//
// What it writes is on the disk when the call returns, comes into sight whole, and
// never replaces a message: a name that is taken is drawn anew or gets a number. No
// process that dies leaves a part of a message under a message's name. What it reads
// are regular files of bounded size, without following links below a project; a file
// that goes away meanwhile was never there, and nothing that lies in a mailbox
// blocks it. Reading changes nothing; Done is what takes a message out of an inbox.
// It takes no locks: the file system settles who was first.
//
// Listings, watch events and cursors have the form of the reference tool (oacp-cli
// 0.4.0), so that both can be used on the same folders.
//
// What a message is and whether it is valid is package message's; mail between
// machines is the carrier's.
package mailbox
