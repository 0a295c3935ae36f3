// Package openintent is a server of OpenIntent's agent-to-agent messaging,
// RFC-0021: channels and messages that belong to an intent, and as much of the
// surrounding protocol (intents, access, agents, tasks, coordinators, events)
// as its agents need. An [Engine] has a method for each thing that can be asked.
//
// # Guarantees
//
// An intent lives here with everything that belongs to it, and a request
// changes all of it that the rules ask for in one transaction or nothing. What
// was answered with success survives the death of the process; a message of a
// channel with options.audit survives a loss of power too, together with its
// copy in the intent's event log. A restart changes nothing.
//
// The messages of a channel have one order, that in which they were committed:
// lists, event streams and cursors agree on it, and a reply comes after its
// request. A message is shown after it was committed, to its sender and its
// recipients only. A message that has expired is not delivered.
//
// A refusal is an [*object.Error] with a code. Every input is bounded. No credential is in any
// answer, event or log.
//
// # How it works
//
// Everything but messages and events is in memory, as the world under Engine.mu, and in the
// store. The rules are Go functions that look at the world. Only functions inside of a write of
// the store change the world. Writes run one after the other, so rules read the world there
// without the lock. All other functions take the lock. If the store does not keep a write, the
// changes that it made to the world are undone before the next write begins.
//
// Each message and event gets the next number of one sequence, the feed. Once committed, it is
// published in the order of these numbers: to the recent messages in memory, to event streams,
// and to callers that wait. Statuses that follow from the time (expired messages, channels past
// their ttl) are computed when somebody asks for them, and need no timer.
//
// # What it leaves to others
//
// Package openintent/object says which form requests and objects have, and checks it. Package
// openintent/api speaks HTTP and decides which host answers a request. Package openintent/remote
// carries requests between machines. Both say who the caller is: a [Call] gets a [Caller]. The ids of an intent and of everything that belongs to it carry the digits of its
// host ([object.HostOfID]). A host tells the agents here of its events in one stream, which
// [Engine.ReceiveHostStream] hands on to their streams.
package openintent
