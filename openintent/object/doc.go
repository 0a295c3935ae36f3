// Package object has what requests to channels and their answers contain: the objects of OpenIntent
// (intents, channels, messages, agents, tasks, access), their ids, and refusals.
//
// # Guarantees
//
// Its functions are pure: they keep nothing, and read no clock but the time of an id. A value that
// was checked has the form that the RFCs give it, and is within its bounds.
//
// # What it leaves to others
//
// Whether a caller may do something, and what follows from it, is package openintent's. The type of
// a request has the name of what it asks for, and a method that checks it as far as that needs
// nothing but the request.
package object
